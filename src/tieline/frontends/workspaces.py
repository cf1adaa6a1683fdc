"""The workspaces API at `/api/workspaces`.

    GET    /api/workspaces         {"workspaces": […]}, each as in `model.workspaces.WorkspaceInfo`
    POST   /api/workspaces         {"path": "/folder", "autonomy": "ask"} registers a folder, and returns its workspace
    PATCH  /api/workspaces/<name>  {"autonomy": "edits"} changes a workspace; without a name, the default one
    DELETE /api/workspaces/<name>  removes a registered workspace, and stops everything that runs in it

A browser must send the page's token to change something. Keys other than admin keys are not valid for these paths.
"""

from collections.abc import Collection
from typing import Any

import msgspec

from tieline.frontends.guard import PageToken
from tieline.frontends.http import JSON, Exchange
from tieline.frontends.http_app import Route, Routes
from tieline.frontends.inbox import render_error
from tieline.frontends.json_body import read_body
from tieline.model.content import Value
from tieline.model.workspaces import Autonomy, Workspaces

PATH = "/api/workspaces"
NO_STORE = ((b"cache-control", b"no-store"),)


class _Register(Value):
    path: str
    autonomy: Autonomy | None = None


class _Change(Value):
    autonomy: Autonomy


class WorkspacesFrontend:
    """Lists, registers, changes and removes workspaces."""

    def __init__(self, workspaces: Workspaces, token: PageToken) -> None:
        self._workspaces = workspaces
        self._token = token

    @property
    def names(self) -> Collection[str]:
        """The names of all workspaces, kept up to date."""
        return self._workspaces.names

    def routes(self) -> Routes:
        """Return the routes of the API."""
        change = Route(self.change, render_error, for_admin=True)
        return {
            PATH: {
                "GET": Route(self.list, render_error, for_admin=True),
                "POST": Route(self.register, render_error, for_admin=True),
                "PATCH": change,
            },
            f"{PATH}/*": {"PATCH": change, "DELETE": Route(self.remove, render_error, for_admin=True)},
        }

    async def list(self, exchange: Exchange) -> None:
        """Respond with all workspaces."""
        await _respond(exchange, {"workspaces": self._workspaces.listed()})

    async def register(self, exchange: Exchange) -> None:
        """Register a folder, and respond with its workspace."""
        self._token.check_browser(exchange)
        body = await read_body(exchange, _Register)
        await _respond(exchange, await self._workspaces.register(body.path, body.autonomy))

    async def change(self, exchange: Exchange) -> None:
        """Change the autonomy of the workspace that the path names."""
        self._token.check_browser(exchange)
        body = await read_body(exchange, _Change)
        await _respond(exchange, self._workspaces.change(_name(exchange), body.autonomy))

    async def remove(self, exchange: Exchange) -> None:
        """Remove the workspace that the path names."""
        self._token.check_browser(exchange)
        await self._workspaces.remove(_name(exchange))
        await _respond(exchange, {})


def _name(exchange: Exchange) -> str:
    return exchange.path.rstrip("/").removeprefix(PATH).removeprefix("/")


async def _respond(exchange: Exchange, value: Any) -> None:
    await exchange.respond(200, msgspec.json.encode(value), JSON, NO_STORE)
