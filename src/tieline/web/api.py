"""The JSON API of the web page at `/api`.

Every request that changes something needs the token from `/api/state`. Pages from other sites cannot read that token,
so they cannot send such requests.

In a cluster, a request about a session is forwarded to the replica that generates a message in it.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from tieline.core.legs.access import ModelAccess
from tieline.core.legs.gateway import Gateway
from tieline.core.sessions.claims import SessionElsewhere
from tieline.core.sessions.sessions import PageSessions, SentMessage
from tieline.frontends.guard import Guard, PageToken
from tieline.frontends.http import JSON, Exchange, address
from tieline.frontends.json_body import read_body
from tieline.model.content import Image, Part, Text, Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Files, ModelInfo
from tieline.model.request import Effort
from tieline.model.session import Summary
from tieline.tasks import Tasks
from tieline.web.connect import connect_page
from tieline.web.exchange import API_HEADERS, has_tools, is_admin, query, respond, rest_of_path
from tieline.web.gateway_info import AccountLogin, GatewayInfo
from tieline.web.keys_api import KeysApi
from tieline.web.setup_api import SetupApi, setup_json
from tieline.web.stream import Stream, inbox_json
from tieline.web.traffic import RecordedTraffic, TrafficSource
from tieline.web.turn_renderer import TurnRenderer, turn_json

MAX_SESSIONS = 1000
MAX_NAME = 500
"""Maximum length, in characters, of a model's name."""
MAX_FILES = 20
"""Maximum number of files attached to one message."""
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MODELS_TIMEOUT = 1.5
"""Seconds to wait for the backends' model lists. If they arrive later, the event stream notifies the page."""
WRONG_KEY_DELAY = 0.5
"""Seconds before a wrong key is rejected, to slow down guessing."""
MODEL_VERBS = frozenset(("send", "retry", "edit"))
"""The actions on a session that use its model."""
LOCKED_STATE = {
    "needs_key": True,
    "models": [],
    "default_model": None,
    "backends": [],
    "tools": {"enabled": False, "workspace": None},
    "examples": {"folder": None, "items": []},
    "inbox": {"version": 0, "items": []},
    "sessions": [],
    "seq": 0,
}
"""The state that a page without the key receives."""


class _CreateSession(Value):
    model: str
    mode: str | None = None
    effort: Effort | None = None
    example: bool = False


class _ChangeSession(Value):
    title: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    mode: str | UnsetType | None = UNSET
    effort: Effort | UnsetType | None = UNSET


class _ImageUpload(Value):
    media_type: str
    data: str


class _SendMessage(Value):
    text: str = ""
    images: tuple[_ImageUpload, ...] = ()
    files: tuple[str, ...] = ()
    parent: str | None = None


class _EditMessage(Value):
    message: str
    text: str


class _ShowBranch(Value):
    message: str


class _KeyEntry(Value):
    key: str


class OtherReplicas(Protocol):
    """The other replicas of a cluster, by their tags."""

    def with_agents(self, model: str) -> str:
        """Return the replica that has to serve a model, because it has the workspace; "" if this replica can."""

    async def forward_to_owner(self, exchange: Exchange, identity: str) -> bool:
        """Forward a request to the replica that a tag or an id names. Return False if that is not possible."""


class PageApi:
    """Handles API requests from the web page."""

    def __init__(
        self,
        gateway: Gateway,
        sessions: PageSessions,
        stream: Stream,
        renderer: TurnRenderer,
        guard: Guard,
        tasks: Tasks,
        info: GatewayInfo,
        *,
        token: PageToken,
        traffic: TrafficSource | None = None,
        replicas: OtherReplicas | None = None,
    ) -> None:
        self._gateway = gateway
        self._traffic = traffic or RecordedTraffic(gateway.bus)
        self._sessions = sessions
        self._stream = stream
        self._renderer = renderer
        self._guard = guard
        self._tasks = tasks
        self._info = info
        self._token = token
        self._replicas = replicas
        self.setup = SetupApi(info, token)
        """Handles the requests that change the set-up of the gateway."""
        self.keys = KeysApi(info.keys, info.usage, token)
        """Handles the requests about keys and usage."""
        self._listing: asyncio.Task[Any] | None = None

    # ── The gateway ──────────────────────────────────────────────────────────────────────────────

    async def state(self, exchange: Exchange) -> None:
        """Send the state that the page needs to start. If the page lacks the key, only say that a key is required."""
        info = self._info
        opening = {"version": info.version, "address": address(exchange)}
        if not self._guard.admits(exchange):
            error = {"kind": "unauthorized", "message": "This gateway requires a key.", "code": "invalid_api_key"}
            await respond(exchange, {**opening, **LOCKED_STATE, "error": error}, *_uncookied(exchange), status=401)
            return
        self._stream.attend()
        tools = self._tools(exchange)
        models = await self._models(exchange.access, has_tools=tools["enabled"])
        examples: dict[str, Any] = {"folder": None, "items": []}
        if has_tools(exchange):  # the tools of an example work in a folder with sample files
            examples = {"folder": info.example_folder, "items": info.examples}
        seq = await self._stream.position()
        sessions = (await self._sessions.summaries(exchange.visible))[:MAX_SESSIONS]
        await respond(
            exchange,
            {
                **opening,
                "token": self._token.value,
                "needs_key": False,
                "models": models,
                "default_model": info.default_model,
                "backends": info.backends() if is_admin(exchange) else [],
                "tools": tools,
                "examples": examples,
                "key": {
                    "name": exchange.place.owner,
                    "is_admin": is_admin(exchange),
                    "has_usage": info.usage is not None,
                    "has_keys": info.keys is not None and is_admin(exchange),
                },
                "inbox": inbox_json(self._gateway.inbox, exchange.visible),
                "sessions": sessions,
                "seq": seq,
            },
            *_uncookied(exchange),
        )

    async def login(self, exchange: Exchange) -> None:
        """Exchange the gateway's key for a pass, which the page then uses instead of the key."""
        body = await read_body(exchange, _KeyEntry)
        if not self._guard.has_keys:
            await respond(exchange, {})
            return
        given = await self._guard.pass_for(body.key.strip(), exchange)
        if given is None:
            await asyncio.sleep(WRONG_KEY_DELAY)
            raise GatewayError("unauthorized", "This key is not correct.", code="invalid_api_key")
        await respond(exchange, {"pass": given}, *_uncookied(exchange))

    async def connect(self, exchange: Exchange) -> None:
        """Send the content of the Connect page: the state of backends and agents, and settings for clients.

        The parameter `model` names the model for the settings.
        """
        self._stream.attend()
        models = await self._listed_models()
        model = query(exchange, "model")[:MAX_NAME]
        found = connect_page(self._info, address(exchange), models, model=model, needs_key=self._guard.has_keys)
        await respond(exchange, {**found, "setup": setup_json(self._info)})

    async def begin_login(self, exchange: Exchange) -> None:
        """Begin a login to the Cursor account, and send the URL to open in a browser."""
        self._token.check(exchange)
        self._stream.attend()
        await respond(exchange, {"url": await self._login().begin()})

    async def cancel_login(self, exchange: Exchange) -> None:
        """Cancel the login in progress."""
        self._token.check(exchange)
        await self._login().cancel()
        await respond(exchange, {})

    def _login(self) -> AccountLogin:
        if self._info.login is None:
            raise GatewayError("not_found", "There is no account to log in to: the backend is switched off.")
        return self._info.login

    async def files(self, exchange: Exchange) -> None:
        """Send the names of workspace files that match a query, so that the user can attach one."""
        files = await self._files(exchange, exchange.workspace or "")
        words = query(exchange, "query")[:200]
        await respond(exchange, {"files": [] if files is None else await files.find(words)})

    # ── Traffic ──────────────────────────────────────────────────────────────────────────────────

    async def traffic(self, exchange: Exchange) -> None:
        """Send summaries of the latest legs, or of the legs before a given one."""
        self._stream.attend()
        before, words = query(exchange, "before") or None, query(exchange, "query")[:200]
        await respond(exchange, {"legs": await self._traffic.legs(before, words, exchange.visible)})

    async def leg(self, exchange: Exchange) -> None:
        """Send the request and the events of a leg, with secrets removed."""
        detail = await self._traffic.detail(rest_of_path(exchange, "/api/traffic/"), exchange.visible)
        await exchange.respond(200, detail, JSON, API_HEADERS)

    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────

    async def create(self, exchange: Exchange) -> None:
        """Create a session and send its summary."""
        self._token.check(exchange)
        body = await read_body(exchange, _CreateSession)
        if body.example and not has_tools(exchange):
            raise GatewayError("forbidden", "Examples use tools, which this key may not use.")
        created = await self._sessions.create(
            body.model, body.mode, body.effort, example=body.example, place=exchange.place
        )
        await respond(exchange, created)

    async def session(self, exchange: Exchange) -> None:
        """Send messages of a session: all of them, the latest ones, or those before a given message."""
        self._stream.attend()
        await self._serve_session(exchange, self._view)

    async def _view(self, exchange: Exchange, session: str) -> dict[str, Any]:
        position = await self._stream.position()
        view = await self._sessions.view(session)
        snapshot = self._stream.snapshot(view)
        seq = await self._stream.settled(view, snapshot, position)
        turns = view.turns
        before = query(exchange, "before")
        if before:
            turns = turns[: next((place for place, turn in enumerate(turns) if turn.id == before), 0)]
        last = query(exchange, "last")
        most = int(last) if last.isdecimal() and len(last) < 9 else len(turns)
        some = turns[max(0, len(turns) - most) :]
        messages = await self._renderer.turns(view.summary.id, some, view.running, snapshot.live)
        shown = {turn.id for turn in some}
        return {
            "summary": view.summary,
            "messages": messages,
            "branches": {one: ids for one, ids in view.branches.items() if one in shown},
            "more": len(some) < len(turns),
            "seq": seq,
        }

    async def change(self, exchange: Exchange) -> None:
        """Change the title, model, mode or effort of a session."""
        self._token.check(exchange)
        await self._serve_session(exchange, self._change)

    async def _change(self, exchange: Exchange, session: str) -> Summary:
        body = await read_body(exchange, _ChangeSession)
        given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
        return await self._sessions.change(session, **given)

    async def delete(self, exchange: Exchange) -> None:
        """Delete a session."""
        self._token.check(exchange)
        await self._serve_session(exchange, self._delete)

    async def _delete(self, _: Exchange, session: str) -> dict[str, Any]:
        await self._sessions.delete(session)
        await self._renderer.forget(session)
        return {}

    async def act(self, exchange: Exchange) -> None:
        """Perform an action on a session: send or edit a message, stop or retry an answer, or show another branch."""
        self._token.check(exchange)
        verb = rest_of_path(exchange, "/api/sessions/").partition("/")[2]
        verbs: dict[str, Callable[[Exchange, str], Any]] = {
            "send": self._send,
            "stop": self._stop,
            "retry": self._retry,
            "edit": self._edit,
            "branch": self._branch,
        }
        if verb not in verbs:
            raise GatewayError("not_found", f"Unknown action; the actions of a session are {', '.join(verbs)}.")
        await self._serve_session(exchange, verbs[verb], uses_model=verb in MODEL_VERBS)

    async def _serve_session(
        self, exchange: Exchange, serve: Callable[[Exchange, str], Awaitable[Any]], *, uses_model: bool = False
    ) -> None:
        """Respond with the result of `serve` for the session that the path names, on the replica that has the session.

        If `uses_model` is true, `serve` needs the session's model, which may be available only on another replica; the
        request is then forwarded there. Raise GatewayError if the client may not see the session.
        """
        session = rest_of_path(exchange, "/api/sessions/").partition("/")[0]
        summary = await self._sessions.summary(session, exchange.visible)
        replica = self._sessions.holder(session)
        if not replica and uses_model and self._replicas is not None:
            replica = self._replicas.with_agents(summary.model)
        if await self._forward(exchange, replica):
            return
        try:
            result = await serve(exchange, session)
        except SessionElsewhere as elsewhere:
            if await self._forward(exchange, elsewhere.replica):
                return
            # A replica that refuses the connection is dead, so this one can claim the session now.
            result = await serve(exchange, session)
        await respond(exchange, result)

    async def _forward(self, exchange: Exchange, replica: str) -> bool:
        """Forward a request to `replica`, unless that is empty. Return whether the request was forwarded."""
        return bool(replica) and self._replicas is not None and await self._replicas.forward_to_owner(exchange, replica)

    async def _send(self, exchange: Exchange, session: str) -> dict[str, Any]:
        body = await read_body(exchange, _SendMessage)
        parts: list[Part] = [Text(text=body.text)] if body.text.strip() else []
        parts += [_picture(place, one) for place, one in enumerate(body.images)]
        if body.files:
            workspace = (await self._sessions.summary(session)).workspace
            parts += await _attached(await self._files(exchange, workspace), body.files)
        return _sent(await self._sessions.send(session, parts, body.parent))

    async def _stop(self, _: Exchange, session: str) -> dict[str, Any]:
        await self._sessions.stop(session)
        return {}

    async def _retry(self, _: Exchange, session: str) -> dict[str, Any]:
        return _sent(await self._sessions.retry(session))

    async def _edit(self, exchange: Exchange, session: str) -> dict[str, Any]:
        body = await read_body(exchange, _EditMessage)
        return _sent(await self._sessions.edit(session, body.message, body.text))

    async def _branch(self, exchange: Exchange, session: str) -> dict[str, Any]:
        await self._sessions.branch(session, (await read_body(exchange, _ShowBranch)).message)
        return {}

    # ── Shared ───────────────────────────────────────────────────────────────────────────────────

    async def _listed_models(self) -> Mapping[str, ModelInfo]:
        """Return all models by name. If that takes too long, return those known so far, and notify the page later."""
        if self._listing is None or self._listing.done():
            self._listing = self._tasks.start(self._gateway.models.all(), "models for the page")
        listing = self._listing
        done, _ = await asyncio.wait([listing], timeout=MODELS_TIMEOUT)
        if not done:
            listing.add_done_callback(lambda _: self._stream.publish_here({"type": "state"}))
        found: Mapping[str, ModelInfo] = listing.result() if done else self._gateway.models.latest
        return found

    def _tools(self, exchange: Exchange) -> dict[str, Any]:
        """Return what the page shows about the gateway's own tools in the workspace that a request names."""
        if self._info.workspaces is None or not has_tools(exchange):
            return {"enabled": False, "workspace": None, "yolo": False, "autonomy": "ask"}
        found = self._info.workspaces.info(exchange.workspace or "")
        return {
            "enabled": found.tools,
            "workspace": found.path if found.tools else None,
            "yolo": found.autonomy == "all",
            "autonomy": found.autonomy,
        }

    async def _files(self, exchange: Exchange, workspace: str) -> Files | None:
        if self._info.workspaces is None or not has_tools(exchange):
            return None
        return await self._info.workspaces.files(workspace)

    async def _models(self, access: ModelAccess | None, *, has_tools: bool) -> list[dict[str, Any]]:
        """Return all models that may be used, as JSON."""
        info = self._info
        return [
            {
                "id": name,
                "title": model.title or name,
                "backend": (backend := name.partition("/")[0]),
                "modes": info.modes(name, has_tools),
                "is_agent": info.is_agent(backend),
                "ideas": info.ideas(name, has_tools),
                "context": model.context,
            }
            for name, model in (await self._listed_models()).items()
            if access is None or access.allows(name, model.owner, model.id)
        ]


def _uncookied(exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
    """Return a header that deletes the cookie set by earlier versions, or no header if the request has no such cookie.

    Browsers send this cookie to every port of the host.
    """
    if b"tieline=" not in exchange.headers.get(b"cookie", b""):
        return ()
    return ((b"set-cookie", b"tieline=; Path=/api; HttpOnly; SameSite=Strict; Max-Age=0"),)


def _sent(sent: SentMessage) -> dict[str, Any]:
    return {"user": turn_json(sent.user), "assistant": sent.assistant}


def _picture(place: int, picture: _ImageUpload) -> Image:
    if picture.media_type not in IMAGE_TYPES:
        raise BadRequest(f"an image must be one of {', '.join(sorted(IMAGE_TYPES))}", f"images[{place}].media_type")
    try:
        base64.b64decode(picture.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest("the image is not valid base64", f"images[{place}].data") from error
    return Image(media_type=picture.media_type, data=picture.data)


async def _attached(files: Files | None, paths: tuple[str, ...]) -> list[Part]:
    if files is None:
        raise BadRequest("files cannot be attached because there is no workspace", "files")
    if len(paths) > MAX_FILES:
        raise BadRequest(f"at most {MAX_FILES} files can be attached to a message", "files")
    return [await files.read(path) for path in paths]
