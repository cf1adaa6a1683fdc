"""Unary calls to Cursor's service, which return the lists of models, the configuration, and the privacy mode."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.message import DecodeError

from tieline.backends.cursor.account import Account
from tieline.backends.cursor.pipes import Transport
from tieline.model.errors import GatewayError, LegFailed
from tieline.model.events import Failed
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor.errors import read_status
from tieline.wire.cursor.identity import Identity, unary_headers
from tieline.wire.cursor.models import CursorModel, combine, read_catalogue, read_usable

USABLE = "/agent.v1.AgentService/GetUsableModels"
CATALOGUE = "/aiserver.v1.AiService/AvailableModels"
CONFIG = "/aiserver.v1.ServerConfigService/GetServerConfig"
PRIVACY = "/aiserver.v1.DashboardService/GetUserPrivacyMode"

MAX_RESPONSE = 16 * 1024 * 1024
CONFIG_WAIT = 5.0
"""Seconds to wait for the configuration. The limit is low, because a run can do without the configuration."""

_ASK_FOR_PARAMETERS = aiserver.AvailableModelsRequest(use_model_parameters=True, do_not_use_markdown=True)
_ASK_FOR_PRIVACY = bytes.fromhex("0801")


class ServerConfig(NamedTuple):
    """The configuration that the service reports. Values that it does not report are None."""

    transport: Transport | None = None
    private: Origin | None = None
    """The host for accounts in privacy mode; `public` is the host for other accounts."""
    public: Origin | None = None
    privacy: int | None = None


class UnaryClient:
    """Makes unary calls with the tokens of an account."""

    def __init__(
        self,
        name: str,
        client: HttpClient,
        origin: Origin,
        account: Account,
        identity: Identity,
        mint_id: Callable[[], str],
        timeouts: Timeouts,
    ) -> None:
        self._name = name
        self._client = client
        self._origin = origin
        self._account = account
        self._identity = identity
        self._mint_id = mint_id
        self._timeouts = timeouts

    async def models(self) -> list[CursorModel]:
        """Return the account's models, with details from the service's catalogue if it is available.

        Raise GatewayError if the list of the account's models is not available.
        """
        usable = read_usable(await self._call(USABLE))
        try:
            catalogue = read_catalogue(await self._call(CATALOGUE, _ASK_FOR_PARAMETERS.SerializeToString()))
        except GatewayError:
            return usable  # the details are optional
        return combine(usable, catalogue)

    async def config(self, *, wants_privacy: bool) -> ServerConfig:
        """Return the service's configuration. If `wants_privacy` is true, include the account's privacy mode.

        Raise GatewayError if the call fails.
        """
        try:
            async with asyncio.timeout(CONFIG_WAIT):
                config = _config(await self._call(CONFIG))
                return config._replace(privacy=await self._privacy()) if wants_privacy else config
        except TimeoutError as error:
            raise GatewayError("timeout", f"no answer within {CONFIG_WAIT:.0f} s") from error

    async def _privacy(self) -> int | None:
        try:
            answer = await self._call(PRIVACY, _ASK_FOR_PRIVACY)
            return aiserver.GetUserPrivacyModeResponse.FromString(answer).privacy_mode
        except (GatewayError, DecodeError):
            return None

    async def _call(self, path: str, body: bytes = b"") -> bytes:
        token = await self._account.token()
        failed = await self._asked(path, body, token)
        if isinstance(failed, Failed) and failed.code == "cursor_unauthenticated":
            failed = await self._asked(path, body, await self._account.renew(token))
        if isinstance(failed, Failed):
            raise LegFailed(failed)
        return failed

    async def _asked(self, path: str, body: bytes, token: str) -> bytes | Failed:
        headers = unary_headers(self._identity, token, self._mint_id())
        try:
            response = await self._client.send(self._origin, "POST", path, headers, body, self._timeouts)
            answer = await response.read(MAX_RESPONSE)
        except PipeError as error:
            raise GatewayError("upstream", f"`{self._name}`: {error.message}") from error
        return answer if response.status == 200 else read_status(response.status, answer, response.headers)


def _config(body: bytes) -> ServerConfig:
    try:
        config = aiserver.GetServerConfigResponse.FromString(body)
    except DecodeError as error:
        raise GatewayError("upstream", "the response is unreadable") from error
    transports: dict[int, Transport] = {1: "http1", 3: "http1", 2: "http2", 4: "http2"}
    urls = config.agent_url_config
    return ServerConfig(transports.get(config.http2_config), _origin(urls.agent_url), _origin(urls.agentn_url))


def _origin(url: str) -> Origin | None:
    try:
        return Origin.parse(url)[0] if url else None
    except ValueError:
        return None
