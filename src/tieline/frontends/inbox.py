"""What waits for a person at `/api/inbox`, for whoever shows it to one; and what was allowed for good at `/api/rules`.

    GET    /api/inbox          {"version": 3, "items": […]}, the items as in `core.inbox.PendingItem`
    GET    /api/inbox/watch    the same as server-sent events, on every change; whoever listens counts as being there
    POST   /api/inbox/<id>     an answer: by its tag, or in short {"option": "allow"}, {"approved": false, "feedback":
                               "…"}, {"action": "accept", "values": {…}}; a plan that offers options also takes
                               {"option": "…"}
    GET    /api/rules          {"workspace": "…", "rules": [{"id": "…", "text": "…", "rule": {…}}]}
    DELETE /api/rules/<id>     allow it no longer

A browser that answers or takes back has to show the page's token. Errors are {"error": {"message": "…", "param": "…"}}.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from tieline.core.inbox.inbox import Inbox
from tieline.frontends.http import Exchange
from tieline.frontends.token import PageToken
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import Answer, ApprovalAnswer, Question, QuestionAnswer, ReviewAnswer
from tieline.model.rules import Rule
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

KEEP_ALIVE = b": nothing new\n\n"
STALLED = 300.0
"""A listener that takes nothing for this long is given up."""
LONGEST_NAME = 200

_KINDS: Mapping[str, type[ApprovalAnswer | ReviewAnswer | QuestionAnswer]] = {
    "permitted": ApprovalAnswer,
    "reviewed": ReviewAnswer,
    "filled": QuestionAnswer,
}
_SHORT = {"approved": "reviewed", "option": "permitted", "action": "filled", "values": "filled"}
"""Which answer is meant by the field that stands in it; the first that is there decides."""


class Rulebook(Protocol):
    """What was allowed for good in a workspace."""

    @property
    def workspace(self) -> str: ...

    async def listed(self) -> list[tuple[Rule, str]]:
        """Return each grant, and why it covers nothing any more, if so."""

    async def revoke(self, rule_id: str) -> bool: ...


class InboxFrontend:
    """Serves the inbox; without a rulebook there are no tools, and nothing to allow."""

    def __init__(
        self,
        inbox: Inbox,
        tasks: Tasks,
        token: PageToken,
        *,
        rulebook: Rulebook | None = None,
        has_file: Callable[[str], Awaitable[bool]] | None = None,
        keep_alive: float = 15.0,
    ) -> None:
        self._inbox = inbox
        self._tasks = tasks
        self._token = token
        self._rulebook = rulebook
        self._has_file = has_file
        self._keep_alive = keep_alive

    async def list(self, exchange: Exchange) -> None:
        """What waits now."""
        await exchange.respond(200, self._listing())

    async def watch(self, exchange: Exchange) -> None:
        """What waits, now and on every change, until the listener leaves or the gateway does."""
        listener = _Listener(exchange)
        leaving = self._tasks.start(listener.until_it_leaves(), "inbox watch")
        try:
            async with self._inbox.watched():
                await exchange.begin_stream()
                await self._tell(exchange)
        except TimeoutError:
            log.info("a listener of the inbox took nothing for %.0f seconds and was given up", STALLED)
        except asyncio.CancelledError:
            if not await listener.parted():
                raise
        finally:
            leaving.cancel()

    async def decide(self, exchange: Exchange) -> None:
        """Answer what waits."""
        self._token.check_browser(exchange)
        answer = read_answer(await exchange.body())
        item_id = _last_of(exchange)
        await self._check_files(item_id, answer)
        self._inbox.decide(item_id, answer, exchange.header(b"user-agent")[:LONGEST_NAME])
        await exchange.respond(200, msgspec.json.encode({"id": item_id, "answer": answer}))

    async def _check_files(self, item_id: str, answer: Answer) -> None:
        """Raise BadRequest for the path of a file that is not there."""
        item = next((one for one in self._inbox.items if one.id == item_id), None)
        if (
            item is None
            or self._has_file is None
            or not isinstance(item.content, Question)
            or not isinstance(answer, QuestionAnswer)
        ):
            return
        for field in item.content.fields:
            path = answer.values.get(field.name)
            if field.kind == "file" and isinstance(path, str) and path and not await self._has_file(path):
                message = f"There is no file `{path[:LONGEST_NAME]}` in the workspace."
                raise BadRequest(message, f"values.{field.name}")

    async def rules(self, exchange: Exchange) -> None:
        """What was allowed for good."""
        book = self._book()
        rules = [_listed(rule, reason) for rule, reason in await book.listed()]
        await exchange.respond(200, msgspec.json.encode({"workspace": book.workspace, "rules": rules}))

    async def revoke(self, exchange: Exchange) -> None:
        """Allow something no longer."""
        self._token.check_browser(exchange)
        rule_id = _last_of(exchange)
        if not await self._book().revoke(rule_id):
            raise GatewayError("not_found", f"There is no rule `{rule_id[:LONGEST_NAME]}`; `/api/rules` lists them.")
        await exchange.respond(200, msgspec.json.encode({"id": rule_id, "revoked": True}))

    async def _tell(self, exchange: Exchange) -> None:
        while True:
            version = self._inbox.version
            await _write(exchange, b"data: " + self._listing() + b"\n\n")
            while version == self._inbox.version:
                try:
                    async with asyncio.timeout(self._keep_alive):
                        await self._inbox.change(version)
                except TimeoutError:
                    await _write(exchange, KEEP_ALIVE)

    def _listing(self) -> bytes:
        return msgspec.json.encode({"version": self._inbox.version, "items": self._inbox.items})

    def _book(self) -> Rulebook:
        if self._rulebook is None:
            message = "The gateway's own tools are off; `tieline serve --tools` switches them on."
            raise GatewayError("not_found", message)
        return self._rulebook


def _listed(rule: Rule, retired: str) -> dict[str, Any]:
    text = f"{rule} (asks again: {retired})" if retired else str(rule)
    return {"id": rule.id, "text": text, "rule": rule, "retired": retired}


class _Listener:
    """One who watches: its leaving cancels the task that serves it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._task = asyncio.current_task()
        self._has_left = False

    async def until_it_leaves(self) -> None:
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        if self._task is not None:
            self._task.cancel("the listener has left")

    async def parted(self) -> bool:
        """After a cancellation: whether the stream has come to its end with it."""
        if self._task is not None:
            self._task.uncancel()
        if not self._has_left and self._exchange.begun:
            # The gateway is being stopped; an end that is whole tells the listener that nothing broke.
            await _write(self._exchange, b"", last=True)
        return self._has_left or self._exchange.begun


async def _write(exchange: Exchange, data: bytes, *, last: bool = False) -> None:
    async with asyncio.timeout(STALLED):
        await exchange.write(data, last=last)


def read_answer(body: bytes) -> Answer:
    """An answer as it was sent; raises BadRequest with the place of what is wrong."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"the answer is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequest("the answer has to be a JSON object")
    tag = given.pop("type", None) or next((_SHORT[name] for name in _SHORT if name in given), None)
    kind = _KINDS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise BadRequest(f"an answer has a `type` of {', '.join(_KINDS)}; or one of {', '.join(_SHORT)}", "type")
    return _converted(given, kind)


def _converted(given: dict[str, Any], kind: type[ApprovalAnswer | ReviewAnswer | QuestionAnswer]) -> Answer:
    known = kind.__struct_encode_fields__
    for name in given:
        if name not in known:
            raise BadRequest(f"`{name[:LONGEST_NAME]}` does not belong here; there is {', '.join(known)}", name)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        complaint, _, place = str(error).partition(" - at `$.")
        param = place.removesuffix("`") or None
        raise BadRequest(f"`{param}`: {complaint}" if param else complaint, param) from error


def render_error(error: GatewayError) -> bytes:
    """An error in plain JSON."""
    return msgspec.json.encode({"error": {"message": error.message, "param": error.param}})


def _last_of(exchange: Exchange) -> str:
    path: str = exchange.scope["path"]
    return path.rstrip("/").rpartition("/")[2]
