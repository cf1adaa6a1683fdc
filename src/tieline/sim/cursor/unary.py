"""The calls beside the runs: keys and logins, models, the server's configuration, and what is answered with nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from google.protobuf.message import Message

from tieline.demo.phrases import title_of
from tieline.sim.cursor.dialects import Dialect, Unreadable, dialect_of, expanded
from tieline.sim.cursor.exchange import Exchange, Incoming
from tieline.sim.cursor.refusals import NAMED, Refusal
from tieline.sim.cursor.settings import Model, Parameter, Settings
from tieline.sim.cursor.tokens import Tokens
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
_UNAUTHENTICATED = Refusal(code="unauthenticated", message="not logged in")
_JSON = [("content-type", "application/json")]


class Unary:
    """Answers every call that is no part of a run."""

    def __init__(self, settings: Settings, tokens: Tokens) -> None:
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
        self._plain: Mapping[str, Callable[[Incoming, bytes], tuple[int, Any]]] = {
            "/auth/exchange_user_api_key": self._exchange,
            "/auth/refresh": self._refresh,
            "/oauth/token": self._grant,
            "/auth/poll": self._poll,
            "/loginDeepControl": self._login,
            "/v1/models": self._listed,
            "/v1/me": self._me,
        }

    async def answer(self, exchange: Exchange) -> None:
        """Answer a call, whatever it is."""
        head = exchange.request
        body = await exchange.body()
        if plain := self._plain.get(head.path):
            status, told = plain(head, body)
            kind = _JSON if not isinstance(told, str) else [("content-type", "text/plain")]
            await exchange.answer(status, told.encode() if isinstance(told, str) else msgspec.json.encode(told), kind)
            return
        dialect = dialect_of(head.header("content-type"))
        if dialect is None:
            await refuse(exchange, None, Refusal(code="unimplemented"), status=415 if head.path in self._calls else 404)
        elif head.path in self._calls:
            await self._call(exchange, dialect, body)
        elif "/StreamChat" in head.path:
            await refuse(exchange, dialect, NAMED["deprecated"])
        else:
            await refuse(exchange, dialect, Refusal(code="unimplemented"), status=404)

    async def _call(self, exchange: Exchange, dialect: Dialect, body: bytes) -> None:
        head = exchange.request
        if not self._tokens.is_access(head.bearer):
            await refuse(exchange, dialect, _UNAUTHENTICATED)
            return
        takes, call = self._calls[head.path]
        asked = takes()
        try:
            # What nobody looks at may be anything.
            if takes is not _OPAQUE:
                dialect.read(expanded(body, head.header("content-encoding")), asked)
        except Unreadable as error:
            await refuse(exchange, dialect, Refusal(code="invalid_argument", message=str(error)))
            return
        await exchange.answer(200, dialect.whole(call(asked)), [("content-type", dialect.content_type)])

    # Plain JSON

    def _exchange(self, head: Incoming, _: bytes) -> tuple[int, Any]:
        return (200, self._tokens.issue()) if self._tokens.is_key(head.bearer) else _denied()

    def _refresh(self, head: Incoming, _: bytes) -> tuple[int, Any]:
        return (200, self._tokens.issue()) if self._tokens.is_refresh(head.bearer) else _denied()

    def _grant(self, _: Incoming, body: bytes) -> tuple[int, Any]:
        """A refresh as the editor asks for it: no new refresh token comes, and a bad one means to log out."""
        asked = _object(body)
        token = str(asked.get("refresh_token") or "")
        if asked.get("grant_type") != "refresh_token" or not asked.get("client_id") or not token:
            return 400, {"error": "invalid_request"}
        if not self._tokens.is_refresh(token):
            return 200, {"access_token": "", "id_token": "", "shouldLogout": True}
        return 200, {"access_token": self._tokens.issue()["accessToken"], "shouldLogout": False}

    def _poll(self, head: Incoming, body: bytes) -> tuple[int, Any]:
        asked: Mapping[str, Any] = head.query if head.method == "GET" else _object(body)
        login, verifier = str(asked.get("uuid", "")), str(asked.get("verifier", ""))
        if not login or not verifier:
            return 400, {"code": "invalid_argument", "message": "a uuid and a verifier are needed"}
        tokens = self._tokens.polled(login, verifier)
        return (404, "Not found") if tokens is None else (200, tokens)

    def _login(self, head: Incoming, _: bytes) -> tuple[int, Any]:
        asked = head.query
        if not asked.get("uuid") or not asked.get("challenge"):
            return 400, "This link is not complete."
        self._tokens.opened(asked["uuid"], asked["challenge"])
        return 200, "You are logged in to the simulator."

    def _listed(self, head: Incoming, _: bytes) -> tuple[int, Any]:
        if not self._tokens.is_key(head.bearer) and not self._tokens.is_access(head.bearer):
            return _denied()
        return 200, {"items": [_item(model) for model in self._settings.models]}

    def _me(self, head: Incoming, _: bytes) -> tuple[int, Any]:
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


async def refuse(exchange: Exchange, dialect: Dialect | None, refusal: Refusal, *, status: int | None = None) -> None:
    """Refuse a call in the dialect it came in."""
    if dialect is None:
        told, kind, body = refusal.whole()[0], "application/json", refusal.whole()[1]
    else:
        told, kind, body = dialect.refused(refusal)
    await exchange.answer(status or told, body, [("content-type", kind)])


def _denied() -> tuple[int, Any]:
    return 401, {"code": "unauthenticated", "message": "this key is not known here"}


def _nothing(_: Message) -> Message:
    return _OPAQUE()


def _named(asked: agent.NameAgentRequest) -> Message:
    return agent.NameAgentResponse(name=title_of(asked.user_message))


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


# ── Models in the three forms they are listed in ─────────────────────────────────────────────────


def _item(model: Model) -> dict[str, Any]:
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


def _details(model: Model) -> shared.ModelDetails:
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


def _available(model: Model) -> aiserver.AvailableModel:
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


def _choices(model: Model) -> list[tuple[Parameter, str]]:
    return [(parameter, value) for parameter in model.parameters for value in parameter.values]
