"""The inbox API at `/api/inbox` and the permanent grants ("always") at `/api/rules`.

    GET    /api/inbox          {"version": 3, "items": […]}, items as in `core.inbox.inbox.PendingItem`
    GET    /api/inbox/watch    the same as server-sent events, now and on every change; while connected, the client
                               counts as a person watching the inbox
    POST   /api/inbox/<id>     an answer with its `type`, or a short form: {"option": "allow"}, {"approved": false,
                               "feedback": "…"}, {"action": "accept", "values": {…}}; a plan review that offers
                               options also accepts {"option": "…"}
    GET    /api/rules          {"workspace": "…", "rules": [{"id": "…", "text": "…", "rule": {…}, "retired": "…"}]};
                               `retired` says why a grant no longer applies, and is empty if it still applies
    DELETE /api/rules/<id>     revoke a grant

The header `x-tieline-workspace` limits the items to those of one workspace, and selects the workspace of the grants. A
browser must send the page's token to answer or revoke. Errors are {"error": {"message": "…", "param": "…"}}.
In a cluster, every replica lists the items of all replicas, and forwards an answer to the replica that holds the item.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from tieline.core.inbox.inbox import Inbox
from tieline.frontends.guard import PageToken
from tieline.frontends.http import Exchange, send_events
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.inbox import Answer, Approval, ApprovalAnswer, Question, QuestionAnswer, ReviewAnswer
from tieline.model.rules import Rule
from tieline.model.scope import Scope
from tieline.model.workspaces import Rulebook, Workspaces
from tieline.tasks import Tasks

KEEP_ALIVE = b": nothing new\n\n"
MAX_SHOWN = 200

_ANSWER_TYPES: Mapping[str, type[ApprovalAnswer | ReviewAnswer | QuestionAnswer]] = {
    "permitted": ApprovalAnswer,
    "reviewed": ReviewAnswer,
    "filled": QuestionAnswer,
}
_TYPE_BY_FIELD = {"approved": "reviewed", "option": "permitted", "action": "filled", "values": "filled"}
"""Maps fields to types. An answer without `type` has the type of the first of these fields that it contains."""


class OwnerForwarder(Protocol):
    """The other replicas of a cluster."""

    async def forward_to_owner(self, exchange: Exchange, identity: str) -> bool:
        """Forward a request to the replica that minted an id. Return False if the request has to be answered here."""


class InboxFrontend:
    """Serves the inbox and the permanent grants.

    `has_file` returns whether a file is in the default workspace. If the gateway's own tools are off, `rulebook` and
    `has_file` are None. `workspaces` has the grants and the files of the named workspaces. `replicas` are the other
    replicas of a cluster, if there is one.
    """

    def __init__(
        self,
        inbox: Inbox,
        tasks: Tasks,
        token: PageToken,
        *,
        rulebook: Rulebook | None = None,
        has_file: Callable[[str], Awaitable[bool]] | None = None,
        workspaces: Workspaces | None = None,
        keep_alive: float = 15.0,
        replicas: OwnerForwarder | None = None,
    ) -> None:
        self._inbox = inbox
        self._tasks = tasks
        self._token = token
        self._rulebook = rulebook
        self._has_file = has_file
        self._workspaces = workspaces
        self._keep_alive = keep_alive
        self._replicas = replicas

    async def list(self, exchange: Exchange) -> None:
        """Respond with the current items."""
        await exchange.respond(200, self._listing(exchange.visible))

    async def watch(self, exchange: Exchange) -> None:
        """Stream the items, now and on every change, until the client disconnects or the gateway stops."""
        scope = exchange.visible
        async with self._inbox.watched(scope):
            await send_events(exchange, self._tasks, self._changes(scope))

    async def decide(self, exchange: Exchange) -> None:
        """Pass a person's answer to the inbox item that the path names."""
        self._token.check_browser(exchange)
        answer = read_answer(await exchange.body())
        item_id = _last_segment(exchange)
        if self._replicas is not None:
            if await self._replicas.forward_to_owner(exchange, item_id):
                return
            self._check_reachable(item_id, exchange.visible)
        self._check_permanent(exchange, item_id, answer)
        await self._check_files(exchange, item_id, answer)
        self._inbox.decide(item_id, answer, exchange.header(b"user-agent")[:MAX_SHOWN], exchange.visible)
        await exchange.respond(200, msgspec.json.encode({"id": item_id, "answer": answer}))

    def _check_reachable(self, item_id: str, scope: Scope) -> None:
        """Raise GatewayError if another replica holds the item. Call this if that replica could not be reached."""
        own = {item.id for item in self._inbox.items}
        if any(item.id == item_id for item in self._inbox.items_in(scope) if item.id not in own):
            message = "The replica that holds this item does not answer; try again in a moment."
            raise GatewayError("overloaded", message)

    def _check_permanent(self, exchange: Exchange, item_id: str, answer: Answer) -> None:
        """Raise GatewayError if the answer would add a permanent rule, but the key is not an admin key.

        Rules apply to the requests of all keys.
        """
        key = exchange.client_key
        if key is None or key.is_admin or not isinstance(answer, ApprovalAnswer):
            return
        item = next((one for one in self._inbox.items_in(exchange.visible) if one.id == item_id), None)
        options = item.content.options if item is not None and isinstance(item.content, Approval) else ()
        if any(option.id == answer.option and option.kind.endswith("_always") for option in options):
            raise GatewayError("forbidden", "Only an admin key may add permanent rules. Choose another option.")

    async def _check_files(self, exchange: Exchange, item_id: str, answer: Answer) -> None:
        """Raise BadRequest if the answer names a file that does not exist."""
        item = next((one for one in self._inbox.items_in(exchange.visible) if one.id == item_id), None)
        if item is None or not isinstance(item.content, Question) or not isinstance(answer, QuestionAnswer):
            return
        for field in item.content.fields:
            path = answer.values.get(field.name)
            if field.kind != "file" or not isinstance(path, str) or not path:
                continue
            if not await self._is_file(item.origin.workspace, path):
                message = f"There is no file `{path[:MAX_SHOWN]}` in the workspace."
                raise BadRequest(message, f"values.{field.name}")

    async def _is_file(self, workspace: str, path: str) -> bool:
        if workspace and self._workspaces is not None:
            return await self._workspaces.has_file(workspace, path)
        return self._has_file is None or await self._has_file(path)

    async def rules(self, exchange: Exchange) -> None:
        """Respond with the permanent grants."""
        book = await self._book(exchange)
        rules = [_rule_entry(*grant) for grant in await book.grants()]
        await exchange.respond(200, msgspec.json.encode({"workspace": book.workspace, "rules": rules}))

    async def revoke(self, exchange: Exchange) -> None:
        """Revoke the permanent grant that the path names."""
        self._token.check_browser(exchange)
        rule_id = _last_segment(exchange)
        if not await (await self._book(exchange)).revoke(rule_id):
            raise GatewayError("not_found", f"There is no rule `{rule_id[:MAX_SHOWN]}`; `/api/rules` lists them.")
        await exchange.respond(200, msgspec.json.encode({"id": rule_id, "revoked": True}))

    async def _changes(self, scope: Scope) -> AsyncGenerator[bytes, None]:
        while True:
            version = self._inbox.version
            yield b"data: " + self._listing(scope) + b"\n\n"
            while version == self._inbox.version:
                try:
                    async with asyncio.timeout(self._keep_alive):
                        await self._inbox.change(version)
                except TimeoutError:
                    yield KEEP_ALIVE

    def _listing(self, scope: Scope) -> bytes:
        return msgspec.json.encode({"version": self._inbox.version, "items": self._inbox.items_in(scope)})

    async def _book(self, exchange: Exchange) -> Rulebook:
        """Return the grants of the workspace that a request names, or of the default workspace if it names none.

        Raise GatewayError if the gateway's own tools are off.
        """
        book = self._rulebook
        if exchange.workspace and self._workspaces is not None:
            book = await self._workspaces.rulebook(exchange.workspace)
        if book is None:
            message = "The gateway's own tools are off; `tieline serve --tools` switches them on."
            raise GatewayError("not_found", message)
        return book


def _rule_entry(rule: Rule, text: str, retired: str) -> dict[str, Any]:
    shown = f"{text} (asks again: {retired})" if retired else text
    return {"id": rule.id, "text": shown, "rule": rule, "retired": retired}


def read_answer(body: bytes) -> Answer:
    """Parse an answer. If it is invalid, raise a BadRequest that names the invalid field."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"the answer is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequest("the answer has to be a JSON object")
    tag = given.pop("type", None) or next((_TYPE_BY_FIELD[name] for name in _TYPE_BY_FIELD if name in given), None)
    kind = _ANSWER_TYPES.get(tag) if isinstance(tag, str) else None
    if kind is None:
        types, fields = ", ".join(_ANSWER_TYPES), ", ".join(_TYPE_BY_FIELD)
        raise BadRequest(f"an answer needs a `type` ({types}) or one of the fields {fields}", "type")
    return _convert_answer(given, kind)


def _convert_answer(given: dict[str, Any], kind: type[ApprovalAnswer | ReviewAnswer | QuestionAnswer]) -> Answer:
    known = kind.__struct_fields__
    for name in given:
        if name not in known:
            raise BadRequest(f"`{name[:MAX_SHOWN]}` is not a field of this answer; it has {', '.join(known)}", name)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        complaint, _, place = str(error).partition(" - at `$.")
        param = place.removesuffix("`") or None
        raise BadRequest(f"`{param}`: {complaint}" if param else complaint, param) from error


def render_error(error: GatewayError) -> bytes:
    """Render an error as plain JSON."""
    return msgspec.json.encode({"error": {"message": error.message, "param": error.param}})


def _last_segment(exchange: Exchange) -> str:
    return exchange.path.rstrip("/").rpartition("/")[2]
