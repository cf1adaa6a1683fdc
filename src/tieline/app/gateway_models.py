"""Asks a running gateway for its models, or for any other JSON that it serves."""

import asyncio
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from tieline.app.local_gateway import LocalGateway
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.ports import ModelFacts
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts
from tieline.wire.shared.http_errors import kind_of

LIMIT = 16 << 20
TIMEOUT = 20.0
"""Time limit for an answer, in seconds. The gateway may ask all its upstreams, some of which may be slow."""

_TIMEOUTS = Timeouts(connect=TIMEOUT, first_byte=TIMEOUT, idle=TIMEOUT)

T = TypeVar("T")


class _Row(Value):
    id: str
    context_length: int | None = None
    max_output_tokens: int | None = None


class _Rows(Value):
    data: tuple[_Row, ...] = ()


class _Workspace(Value):
    name: str
    path: str


class _Workspaces(Value):
    workspaces: tuple[_Workspace, ...] = ()


class _ErrorText(Value):
    message: str = ""


class _Error(Value):
    error: _ErrorText = _ErrorText()


async def list_models(gateway: LocalGateway) -> list[str]:
    """Return the names of all models. Raise GatewayError if the gateway does not answer."""
    return [row.id for row in (await fetch(gateway, "/v1/models", _Rows)).data]


async def find_model(gateway: LocalGateway, name: str) -> ModelFacts:
    """Return the facts about a model. If there is no such model, raise a GatewayError that lists similar names."""
    row = await fetch(gateway, f"/v1/models/{quote(name, safe='/')}", _Row)
    return ModelFacts(context=row.context_length, max_output=row.max_output_tokens)


async def in_workspace_of(gateway: LocalGateway, folder: Path) -> LocalGateway:
    """Return the gateway with the base URL of the workspace that contains a folder, or unchanged if there is none.

    `folder` is a real path. If several workspaces contain it, the innermost one is used. Raise GatewayError if the
    gateway does not answer: in the default workspace, tools and approvals of a client would belong to another folder.
    """
    try:
        listed = (await fetch(gateway, "/api/workspaces", _Workspaces)).workspaces
    except GatewayError as error:
        if error.kind != "not_found":
            raise
        return gateway  # an older one, without workspaces
    around = [workspace for workspace in listed if folder.is_relative_to(workspace.path)]
    name = max(around, key=lambda workspace: len(workspace.path)).name if around else ""
    return gateway._replace(url=f"{gateway.url}/workspaces/{quote(name)}") if name else gateway


async def fetch(gateway: LocalGateway, path: str, kind: type[T]) -> T:
    """Return the JSON at a path of the gateway, decoded as `kind`. Raise GatewayError if that fails."""
    origin, prefix = Origin.parse(gateway.url)
    headers = [("authorization", f"Bearer {gateway.key}")] if gateway.key else []
    client = HttpClient()
    try:
        async with asyncio.timeout(TIMEOUT):
            response = await client.send(origin, "GET", prefix + path, headers, timeouts=_TIMEOUTS)
            body = await response.read(LIMIT)
        if response.status != 200:
            message = msgspec.json.decode(body, type=_Error).error.message if body.startswith(b"{") else ""
            message = message or f"The gateway at {gateway.url} answered {response.status}."
            raise GatewayError(kind_of(response.status), message, status=response.status)
        return msgspec.json.decode(body, type=kind)
    except (PipeError, TimeoutError, msgspec.DecodeError, UnicodeError) as error:
        reason = str(error) or f"no answer within {TIMEOUT:g} seconds"
        raise GatewayError("upstream", f"Cannot read {path} from the gateway at {gateway.url}: {reason}.") from error
    finally:
        await client.aclose()
