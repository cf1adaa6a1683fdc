"""Answers the calls that are not part of a run, for example those about keys, logins, models and the configuration.

Some calls are always answered with an empty response.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from google.protobuf.message import Message

from tieline.demo.phrases import title_of
from tieline.sim.cursor.http_exchange import HttpExchange, RequestHead
from tieline.sim.cursor.refusals import NAMED, ServiceRefusal
from tieline.sim.cursor.settings import Parameter, SimModel, SimSettings
from tieline.sim.cursor.tokens import TokenIssuer
from tieline.sim.cursor.wire_formats import Unreadable, WireFormat, decompressed, wire_format_of
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor._pb import shared_pb2 as shared

AGENT = "/agent.v1.AgentService"
_AI = "/aiserver.v1.AiService"
_DASHBOARD = "/aiserver.v1.DashboardService"
_ANALYTICS = "/aiserver.v1.AnalyticsService"
_OPAQUE = shared.Opaque

_HTTP2_CONFIG = (
    aiserver.HTTP2_CONFIG_UNSPECIFIED,
    aiserver.HTTP2_CONFIG_FORCE_ALL_DISABLED,
    aiserver.HTTP2_CONFIG_FORCE_ALL_ENABLED,
    aiserver.HTTP2_CONFIG_FORCE_BIDI_DISABLED,
    aiserver.HTTP2_CONFIG_FORCE_BIDI_ENABLED,
)
_UNAUTHENTICATED = ServiceRefusal(code="unauthenticated", message="not logged in")


class UnaryCalls:
    """Answers every HTTP call that is not part of a run."""

    def __init__(self, settings: SimSettings, tokens: TokenIssuer) -> None:
        self._settings = settings
        self._tokens = tokens
        self._calls: Mapping[str, tuple[type[Message], Callable[[Any], Message]]] = {
            f"{_DASHBOARD}/GetUserPrivacyMode": (_OPAQUE, self._privacy_mode),
            f"{_DASHBOARD}/GetTeamAdminSettingsOrEmptyIfNotInTeam": (_OPAQUE, _nothing),
            f"{_DASHBOARD}/GetTeamReposOrEmptyIfNotInTeam": (_OPAQUE, _nothing),
            f"{_ANALYTICS}/BootstrapStatsig": (_OPAQUE, _nothing),
            f"{_ANALYTICS}/TrackEvents": (_OPAQUE, _nothing),
            "/aiserver.v1.ServerConfigService/GetServerConfig": (_OPAQUE, self._config),
            f"{AGENT}/GetUsableModels": (agent.GetUsableModelsRequest, self._usable_models),
            f"{_AI}/GetUsableModels": (agent.GetUsableModelsRequest, self._usable_models),
            f"{AGENT}/GetDefaultModelForCli": (agent.GetDefaultModelForCliRequest, self._default_model),
            f"{AGENT}/NameAgent": (agent.NameAgentRequest, _named),
            f"{_AI}/AvailableModels": (aiserver.AvailableModelsRequest, self._available_models),
        }
        self._plain: Mapping[str, Callable[[RequestHead, bytes], tuple[int, Any]]] = {
            "/auth/exchange_user_api_key": self._exchange,
            "/auth/refresh": self._refresh,
            "/oauth/token": self._grant,
            "/auth/poll": self._poll,
            "/loginDeepControl": self._login,
            "/v1/models": self._listed,
            "/v1/me": self._me,
        }

    async def answer(self, exchange: HttpExchange) -> None:
        """Read the request of a call and send the response."""
        head = exchange.request
        body = await exchange.body()
        if plain := self._plain.get(head.path):
            status, result = plain(head, body)
            if isinstance(result, str):
                await exchange.answer(status, result.encode(), [("content-type", "text/plain")])
            else:
                await exchange.answer(status, msgspec.json.encode(result), [("content-type", "application/json")])
            return
        wire_format = wire_format_of(head.header("content-type"))
        if wire_format is None:
            await refuse(
                exchange, None, ServiceRefusal(code="unimplemented"), status=415 if head.path in self._calls else 404
            )
        elif head.path in self._calls:
            await self._call(exchange, wire_format, body)
        elif "/StreamChat" in head.path:
            await refuse(exchange, wire_format, NAMED["deprecated"])
        else:
            await refuse(exchange, wire_format, ServiceRefusal(code="unimplemented"), status=404)

    async def _call(self, exchange: HttpExchange, wire_format: WireFormat, body: bytes) -> None:
        head = exchange.request
        if not self._tokens.is_access(head.bearer):
            await refuse(exchange, wire_format, _UNAUTHENTICATED)
            return
        takes, call = self._calls[head.path]
        asked = takes()
        try:
            # A body whose content does not matter is not parsed.
            if takes is not _OPAQUE:
                wire_format.read(decompressed(body, head.header("content-encoding")), asked)
        except Unreadable as error:
            await refuse(exchange, wire_format, ServiceRefusal(code="invalid_argument", message=str(error)))
            return
        await exchange.answer(200, wire_format.whole(call(asked)), [("content-type", wire_format.content_type)])

    # Plain JSON

    def _exchange(self, head: RequestHead, _: bytes) -> tuple[int, Any]:
        return (200, self._tokens.issue()) if self._tokens.is_key(head.bearer) else _denied()

    def _refresh(self, head: RequestHead, _: bytes) -> tuple[int, Any]:
        return (200, self._tokens.issue()) if self._tokens.is_refresh(head.bearer) else _denied()

    def _grant(self, _: RequestHead, body: bytes) -> tuple[int, Any]:
        """Answer a request for a new access token in the format that Cursor's editor uses.

        The response contains no new refresh token. If the refresh token is invalid, the response tells the editor to
        log out.
        """
        asked = _object(body)
        token = str(asked.get("refresh_token") or "")
        if asked.get("grant_type") != "refresh_token" or not asked.get("client_id") or not token:
            return 400, {"error": "invalid_request"}
        if not self._tokens.is_refresh(token):
            return 200, {"access_token": "", "id_token": "", "shouldLogout": True}
        return 200, {"access_token": self._tokens.issue()["accessToken"], "shouldLogout": False}

    def _poll(self, head: RequestHead, body: bytes) -> tuple[int, Any]:
        asked: Mapping[str, Any] = head.query if head.method == "GET" else _object(body)
        login, verifier = str(asked.get("uuid", "")), str(asked.get("verifier", ""))
        if not login or not verifier:
            return 400, {"code": "invalid_argument", "message": "uuid and verifier are required"}
        tokens = self._tokens.polled(login, verifier)
        return (404, "Not found") if tokens is None else (200, tokens)

    def _login(self, head: RequestHead, _: bytes) -> tuple[int, Any]:
        asked = head.query
        if not asked.get("uuid") or not asked.get("challenge"):
            return 400, "This link is incomplete."
        self._tokens.opened(asked["uuid"], asked["challenge"])
        return 200, "You are logged in to the simulator."

    def _listed(self, head: RequestHead, _: bytes) -> tuple[int, Any]:
        if not self._tokens.is_key(head.bearer) and not self._tokens.is_access(head.bearer):
            return _denied()
        return 200, {"items": [_item(model) for model in self._settings.models]}

    def _me(self, head: RequestHead, _: bytes) -> tuple[int, Any]:
        if not self._tokens.is_key(head.bearer) and not self._tokens.is_access(head.bearer):
            return _denied()
        return 200, {
            "apiKeyName": "simulated",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "userEmail": "demo@tieline.example",
        }

    # Protobuf

    def _privacy_mode(self, _: Message) -> Message:
        return aiserver.GetUserPrivacyModeResponse(privacy_mode=self._settings.privacy_mode)

    def _config(self, _: Message) -> Message:
        config = aiserver.GetServerConfigResponse(config_version="simulated")
        config.http2_config = _HTTP2_CONFIG[self._settings.http2_config]
        if url := self._settings.agent_url:
            config.agent_url_config.CopyFrom(aiserver.AgentUrlConfig(agent_url=url, agentn_url=url))
        return config

    def _usable_models(self, _: Message) -> Message:
        return agent.GetUsableModelsResponse(models=[_details(model) for model in self._settings.models])

    def _default_model(self, _: Message) -> Message:
        return agent.GetDefaultModelForCliResponse(model=_details(self._settings.models[0]))

    def _available_models(self, _: Message) -> Message:
        return aiserver.AvailableModelsResponse(models=[_available(model) for model in self._settings.models])


async def refuse(
    exchange: HttpExchange, wire_format: WireFormat | None, refusal: ServiceRefusal, *, status: int | None = None
) -> None:
    """Answer a call with an error in `wire_format` (JSON if None). `status` overrides the usual HTTP status."""
    if wire_format is None:
        own_status, body = refusal.whole()
        kind = "application/json"
    else:
        own_status, kind, body = wire_format.refused(refusal)
    await exchange.answer(status or own_status, body, [("content-type", kind)])


def _denied() -> tuple[int, Any]:
    return 401, {"code": "unauthenticated", "message": "unknown key"}


def _nothing(_: Message) -> Message:
    return _OPAQUE()


def _named(asked: agent.NameAgentRequest) -> Message:
    return agent.NameAgentResponse(name=title_of(asked.user_message))


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


# ── Models in the three forms in which they are listed ───────────────────────────────────────────


def _item(model: SimModel) -> dict[str, Any]:
    item: dict[str, Any] = {"id": model.id, "displayName": model.title, "aliases": model.aliases}
    if model.parameters:
        item["parameters"] = [
            {"id": one.id, "values": [{"value": value} for value in one.values]} for one in model.parameters
        ]
        item["variants"] = [
            {"params": [{"id": one.id, "value": value}], "displayName": f"{model.title} {value}", "isDefault": False}
            for one, value in _choices(model)
        ]
    return item


def _details(model: SimModel) -> shared.ModelDetails:
    details = shared.ModelDetails(
        model_id=model.id,
        display_model_id=model.id,
        display_name=model.title,
        display_name_short=model.title,
        aliases=model.aliases,
    )
    if model.thinks:
        details.thinking_details.SetInParent()
    return details


def _available(model: SimModel) -> aiserver.AvailableModel:
    return aiserver.AvailableModel(
        name=model.id,
        supports_images=True,
        supports_non_max_mode=True,
        context_token_limit=model.context,
        client_display_name=model.title,
        server_model_name=model.id,
        variants=[
            aiserver.ModelVariant(
                parameters=[aiserver.ModelParameter(id=one.id, value=value)],
                display_name=f"{model.title} {value}",
                variant_string_representation=f"{model.id}[{one.id}={value}]",
            )
            for one, value in _choices(model)
        ],
    )


def _choices(model: SimModel) -> list[tuple[Parameter, str]]:
    return [(parameter, value) for parameter in model.parameters for value in parameter.values]
