"""The API through which the page sets up the gateway: it adds upstreams and installs coding agents.

    POST   /api/upstreams              add an upstream: {"name", "provider", "base_url", "key", "models"}
    POST   /api/upstreams/<name>/test  test it with its stored key: {"model"}
    POST   /api/upstreams/<name>/key   replace its key: {"key"}
    DELETE /api/upstreams/<name>       remove it and its key
    POST   /api/upstream-test          test an upstream before it is added: the fields above and "model"
    GET    /api/agents/install         the latest installation
    POST   /api/agents/install         install an agent: {"agent", "command"}, with the command that the user confirmed
    DELETE /api/agents/install         stop the installation

Every request that changes something needs the page's token. Keys are accepted but never sent back.
"""

from typing import Any

from tieline.frontends.guard import PageToken
from tieline.frontends.http import Exchange
from tieline.frontends.json_body import read_body
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.web.exchange import respond, rest_of_path
from tieline.web.gateway_info import GatewayInfo
from tieline.web.setup_info import AgentInstaller, NewUpstream, UpstreamSetup

PREFIX = "/api/upstreams/"
OFF = "This page may not change the set-up of the gateway: `setup` is off under [web] in the configuration."


class _Test(NewUpstream):
    model: str = ""


class _TestAdded(Value):
    model: str = ""


class _ReplaceKey(Value):
    key: str


class _Install(Value):
    agent: str
    command: str


class SetupApi:
    """Handles the page's requests that change the set-up of the gateway."""

    def __init__(self, info: GatewayInfo, token: PageToken) -> None:
        self._info = info
        self._token = token

    async def add(self, exchange: Exchange) -> None:
        """Add an upstream."""
        upstreams = self._upstreams(exchange)
        await upstreams.add(await read_body(exchange, NewUpstream))
        await respond(exchange, {"added": upstreams.added()})

    async def test(self, exchange: Exchange) -> None:
        """Test an upstream that has not been added."""
        upstreams = self._upstreams(exchange)
        body = await read_body(exchange, _Test)
        await respond(exchange, await upstreams.test(body, body.model))

    async def act(self, exchange: Exchange) -> None:
        """Test an added upstream, or replace its key."""
        upstreams = self._upstreams(exchange)
        name, _, verb = rest_of_path(exchange, PREFIX).partition("/")
        if verb == "test":
            await respond(exchange, await upstreams.test_added(name, (await read_body(exchange, _TestAdded)).model))
        elif verb == "key":
            await upstreams.replace_key(name, (await read_body(exchange, _ReplaceKey)).key)
            await respond(exchange, {"added": upstreams.added()})
        else:
            raise GatewayError("not_found", "Unknown action; the actions of an upstream are test and key.")

    async def remove(self, exchange: Exchange) -> None:
        """Remove an added upstream."""
        upstreams = self._upstreams(exchange)
        await upstreams.remove(rest_of_path(exchange, PREFIX))
        await respond(exchange, {"added": upstreams.added()})

    async def installation(self, exchange: Exchange) -> None:
        """Send the state of the latest installation."""
        installer = self._info.installer
        await respond(exchange, None if installer is None else installer.state())

    async def install(self, exchange: Exchange) -> None:
        """Install a coding agent."""
        installer = self._installer(exchange)
        body = await read_body(exchange, _Install)
        await installer.start(body.agent, body.command)
        await respond(exchange, installer.state())

    async def cancel_install(self, exchange: Exchange) -> None:
        """Stop the installation."""
        installer = self._installer(exchange)
        await installer.cancel()
        await respond(exchange, installer.state())

    def _upstreams(self, exchange: Exchange) -> UpstreamSetup:
        self._token.check(exchange)
        if self._info.upstreams is None:
            raise GatewayError("forbidden", OFF)
        return self._info.upstreams

    def _installer(self, exchange: Exchange) -> AgentInstaller:
        self._token.check(exchange)
        if self._info.installer is None:
            raise GatewayError("forbidden", OFF)
        return self._info.installer


def setup_json(info: GatewayInfo) -> dict[str, Any] | None:
    """Return what the Connect page needs to set up the gateway, or None if it may not do so."""
    if info.upstreams is None:
        return None
    return {
        "presets": info.upstreams.presets(),
        "added": info.upstreams.added(),
        "installation": None if info.installer is None else info.installer.state(),
    }
