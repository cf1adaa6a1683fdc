"""What the page asks for and does: small JSON requests at `/api`, as the contract of the page has them.

Whatever changes something needs the token that `/api/state` tells to those who may use the gateway: a page of another
site cannot read it, so it cannot act here.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import UNSET, UnsetType

from tieline.core.legs.gateway import Gateway
from tieline.core.sessions.sessions import PageSessions, SentMessage
from tieline.frontends.guard import Guard
from tieline.frontends.http import JSON, Exchange, address
from tieline.frontends.token import PageToken
from tieline.model.content import Image, Part, Text, Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Files
from tieline.model.request import Effort
from tieline.tasks import Tasks
from tieline.web.connect import connection
from tieline.web.facts import Facts, Login
from tieline.web.pages import HEADERS
from tieline.web.stream import Stream, inbox_json
from tieline.web.turns import Renderings, plain

MOST_SESSIONS = 1000
MOST_FILES = 20
"""Files that can be put into one message."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PATIENCE = 1.5
"""Seconds that the state waits for backends to say which models they have; later they come by themselves."""
WRONG_KEY = 0.5
"""Seconds that a wrong key has to wait for its answer."""
CLOSED = {
    "needs_key": True,
    "models": [],
    "backends": [],
    "tools": {"enabled": False, "workspace": None},
    "inbox": {"version": 0, "items": []},
    "sessions": [],
    "seq": 0,
}
"""The state as it is told to somebody who has not shown the key."""

T = TypeVar("T")


class _Create(Value):
    model: str
    mode: str | None = None
    effort: Effort | None = None


class _Change(Value):
    title: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    mode: str | UnsetType | None = UNSET
    effort: Effort | UnsetType | None = UNSET


class _Picture(Value):
    media_type: str
    data: str


class _Send(Value):
    text: str = ""
    images: tuple[_Picture, ...] = ()
    files: tuple[str, ...] = ()
    parent: str | None = None


class _Edit(Value):
    message: str
    text: str


class _Branch(Value):
    message: str


class _Key(Value):
    key: str


class Api:
    """The requests of the page."""

    def __init__(
        self,
        gateway: Gateway,
        sessions: PageSessions,
        stream: Stream,
        renderings: Renderings,
        guard: Guard,
        tasks: Tasks,
        facts: Facts,
        *,
        token: PageToken,
    ) -> None:
        self._gateway = gateway
        self._sessions = sessions
        self._stream = stream
        self._renderings = renderings
        self._guard = guard
        self._tasks = tasks
        self._facts = facts
        self._token = token
        self._listing: asyncio.Task[Any] | None = None

    # ── The program ──────────────────────────────────────────────────────────────────────────────

    async def state(self, exchange: Exchange) -> None:
        """Everything the page needs to begin; to whoever has not shown the key, that it is needed."""
        facts = self._facts
        tools = {"enabled": facts.has_tools, "workspace": facts.workspace, "yolo": facts.yolo}
        opening = {"version": facts.version, "address": address(exchange)}
        if not self._guard.admits(exchange):
            error = {"kind": "unauthorized", "message": "This gateway needs its key.", "code": "invalid_api_key"}
            await _respond(exchange, {**opening, **CLOSED, "error": error}, *_uncookied(exchange), status=401)
            return
        self._stream.attend()
        models = await self._models()
        sessions = (await self._sessions.summaries())[:MOST_SESSIONS]
        await _respond(
            exchange,
            {
                **opening,
                "token": self._token.value,
                "needs_key": False,
                "models": models,
                "backends": facts.backends(),
                "tools": tools,
                "inbox": inbox_json(self._gateway.inbox),
                "sessions": sessions,
                "seq": self._stream.seq,
            },
            *_uncookied(exchange),
        )

    async def login(self, exchange: Exchange) -> None:
        """Exchange the key for a pass that is as good on the paths of the page at this address."""
        body = await _read(exchange, _Key)
        if not self._guard.has_keys:
            await _respond(exchange, {})
            return
        given = self._guard.pass_for(body.key.strip(), exchange)
        if given is None:
            await asyncio.sleep(WRONG_KEY)
            raise GatewayError("unauthorized", "That is not the key of this gateway.", code="invalid_api_key")
        await _respond(exchange, {"pass": given}, *_uncookied(exchange))

    async def connect(self, exchange: Exchange) -> None:
        """How everything stands, and what to tell the clients."""
        self._stream.attend()
        models = await self._models()
        ids = [str(model["id"]) for model in models]
        found = connection(self._facts, address(exchange), ids, needs_key=self._guard.has_keys)
        await _respond(exchange, found)

    async def begin_login(self, exchange: Exchange) -> None:
        """Begin to log in to an account."""
        self._token.check(exchange)
        self._stream.attend()
        await _respond(exchange, {"url": await self._login().begin()})

    async def cancel_login(self, exchange: Exchange) -> None:
        """Give up a login that was begun."""
        self._token.check(exchange)
        await self._login().cancel()
        await _respond(exchange, {})

    def _login(self) -> Login:
        if self._facts.login is None:
            raise GatewayError("not_found", "There is no account to log in to: it is switched off.")
        return self._facts.login

    async def files(self, exchange: Exchange) -> None:
        """Files of the workspace that could be put into a message."""
        files = self._facts.files
        query = _query(exchange, "query")[:200]
        await _respond(exchange, {"files": [] if files is None else await files.find(query)})

    # ── Traffic ──────────────────────────────────────────────────────────────────────────────────

    async def traffic(self, exchange: Exchange) -> None:
        """The last legs, or those before one."""
        self._stream.attend()
        legs = self._gateway.bus.legs(_query(exchange, "before") or None, _query(exchange, "query")[:200])
        await _respond(exchange, {"legs": legs})

    async def leg(self, exchange: Exchange) -> None:
        """Both sides of a leg, without secrets."""
        bus = self._gateway.bus
        detail = bus.detail(_rest(exchange, "/api/traffic/"))
        request = msgspec.json.decode(msgspec.json.encode(detail.request))
        for shown, tool in zip(request.get("tools", ()), detail.request.tools, strict=True):
            shown["schema"] = _schema(tool.schema)
        shown = {"leg": detail.leg, "request": request, "events": detail.events, "notes": detail.notes}
        text = msgspec.json.encode({**shown, "shown": detail.shown}).decode()
        await exchange.respond(200, bus.hide(text).encode(), JSON, _HEADERS)

    # ── Sessions ─────────────────────────────────────────────────────────────────────────────────

    async def create(self, exchange: Exchange) -> None:
        """A new session."""
        self._token.check(exchange)
        body = await _read(exchange, _Create)
        await _respond(exchange, await self._sessions.create(body.model, body.mode, body.effort))

    async def session(self, exchange: Exchange) -> None:
        """What is shown of a session: everything, or so many of its messages at the end or before one."""
        self._stream.attend()
        view = await self._sessions.view(_rest(exchange, "/api/sessions/"))
        snapshot = self._stream.snapshot(view)
        turns = view.turns
        before = _query(exchange, "before")
        if before:
            turns = turns[: next((place for place, turn in enumerate(turns) if turn.id == before), 0)]
        last = _query(exchange, "last")
        most = int(last) if last.isdecimal() and len(last) < 9 else len(turns)
        some = turns[max(0, len(turns) - most) :]
        messages = await self._renderings.turns(view.summary.id, some, view.running, snapshot.live)
        shown = {turn.id for turn in some}
        await _respond(
            exchange,
            {
                "summary": view.summary,
                "messages": messages,
                "branches": {one: ids for one, ids in view.branches.items() if one in shown},
                "more": len(some) < len(turns),
                "seq": snapshot.seq,
            },
        )

    async def change(self, exchange: Exchange) -> None:
        """Another title, model, mode or effort."""
        self._token.check(exchange)
        body = await _read(exchange, _Change)
        given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
        await _respond(exchange, await self._sessions.change(_rest(exchange, "/api/sessions/"), **given))

    async def delete(self, exchange: Exchange) -> None:
        """Forget a session."""
        self._token.check(exchange)
        session = _rest(exchange, "/api/sessions/")
        await self._sessions.delete(session)
        await self._renderings.forget(session)
        await _respond(exchange, {})

    async def act(self, exchange: Exchange) -> None:
        """Send, stop, retry, edit, or show another branch."""
        self._token.check(exchange)
        session, _, verb = _rest(exchange, "/api/sessions/").partition("/")
        verbs: dict[str, Callable[[Exchange, str], Any]] = {
            "send": self._send,
            "stop": self._stop,
            "retry": self._retry,
            "edit": self._edit,
            "branch": self._branch,
        }
        if verb not in verbs:
            raise GatewayError("not_found", f"A session can {', '.join(verbs)}; nothing else.")
        await _respond(exchange, await verbs[verb](exchange, session))

    async def _send(self, exchange: Exchange, session: str) -> dict[str, Any]:
        body = await _read(exchange, _Send)
        parts: list[Part] = [Text(text=body.text)] if body.text.strip() else []
        parts += [_picture(place, one) for place, one in enumerate(body.images)]
        parts += await _attached(self._facts.files, body.files)
        return _sent(await self._sessions.send(session, parts, body.parent))

    async def _stop(self, _: Exchange, session: str) -> dict[str, Any]:
        await self._sessions.stop(session)
        return {}

    async def _retry(self, _: Exchange, session: str) -> dict[str, Any]:
        return _sent(await self._sessions.retry(session))

    async def _edit(self, exchange: Exchange, session: str) -> dict[str, Any]:
        body = await _read(exchange, _Edit)
        return _sent(await self._sessions.edit(session, body.message, body.text))

    async def _branch(self, exchange: Exchange, session: str) -> dict[str, Any]:
        await self._sessions.branch(session, (await _read(exchange, _Branch)).message)
        return {}

    # ── What they share ──────────────────────────────────────────────────────────────────────────

    async def _models(self) -> list[dict[str, Any]]:
        """The models that are known; what takes long to find out is told later."""
        if self._listing is None or self._listing.done():
            self._listing = self._tasks.start(self._gateway.models(), "models for the page")
        listing = self._listing
        done, _ = await asyncio.wait([listing], timeout=PATIENCE)
        if not done:
            listing.add_done_callback(lambda _: self._stream.publish({"type": "state"}))
            return []
        facts = self._facts
        return [
            {
                "id": name,
                "title": info.title or name,
                "backend": (backend := name.partition("/")[0]),
                "modes": facts.modes(name),
                "is_agent": facts.is_agent(backend),
                "ideas": facts.ideas(name),
                "context": info.context,
            }
            for name, info in listing.result().items()
        ]


_HEADERS = (*HEADERS, (b"cache-control", b"no-store"))


async def _respond(exchange: Exchange, value: Any, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await exchange.respond(status, msgspec.json.encode(value), JSON, (*_HEADERS, *headers))


def _uncookied(exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
    """Remove the cookie that earlier versions set: browsers send it to every port of this host."""
    if b"tieline=" not in exchange.headers.get(b"cookie", b""):
        return ()
    return ((b"set-cookie", b"tieline=; Path=/api; HttpOnly; SameSite=Strict; Max-Age=0"),)


async def _read(exchange: Exchange, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await exchange.body() or b"{}", type=kind)
    except msgspec.ValidationError as error:
        complaint, _, place = str(error).partition(" - at `$.")
        param = place.removesuffix("`") or None
        raise BadRequest(f"`{param}`: {complaint}" if param else complaint, param) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"this is not JSON: {error}") from error


def _sent(sent: SentMessage) -> dict[str, Any]:
    return {"user": plain(sent.user), "assistant": sent.assistant}


def _rest(exchange: Exchange, prefix: str) -> str:
    path: str = exchange.scope["path"]
    return path.rstrip("/").removeprefix(prefix)[:200]


def _query(exchange: Exchange, name: str) -> str:
    given: bytes = exchange.scope["query_string"]
    return parse_qs(given.decode("latin-1"), errors="replace").get(name, [""])[-1]


def _picture(place: int, picture: _Picture) -> Image:
    if picture.media_type not in PICTURES:
        raise BadRequest(f"a picture can be {', '.join(sorted(PICTURES))}", f"images[{place}].media_type")
    try:
        base64.b64decode(picture.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest("the picture is not base64", f"images[{place}].data") from error
    return Image(media_type=picture.media_type, data=picture.data)


async def _attached(files: Files | None, paths: tuple[str, ...]) -> list[Part]:
    if not paths:
        return []
    if files is None:
        raise BadRequest("there is no workspace to take files from", "files")
    if len(paths) > MOST_FILES:
        raise BadRequest(f"no more than {MOST_FILES} files go into a message", "files")
    return [await files.read(path) for path in paths]


def _schema(schema: bytes) -> Any:
    try:
        return msgspec.json.decode(schema)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
