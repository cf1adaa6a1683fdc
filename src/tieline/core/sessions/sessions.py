"""The page's conversations: their messages in branches, what is being said now, and all of it kept in a store.

A session is listed by its summary; its messages are read from the store when somebody looks at it. A message of the
model is kept from its beginning on, so that after a restart there is what had arrived, with the ending *cancelled*.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import Asker
from tieline.core.sessions.branches import Branches
from tieline.core.sessions.drafts import Draft
from tieline.core.watch.bus import Bus, Gone, Said, SessionNews, TurnNews
from tieline.model.content import File, Message, Part, Text, ToolCall, Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Activity, Finished, Status, StopReason
from tieline.model.inbox import Answer, InboxItem, Origin, PlanReview, ReviewAnswer
from tieline.model.ports import Store
from tieline.model.request import Effort, Reasoning, Request
from tieline.model.session import SessionUsage, Summary, Turn
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

T = TypeVar("T")

FRONTEND = "web"
CLIENT = "web page"
PLAN_MODE, AGENT_MODE = "plan", "agent"
SHELF = "sessions"
SAVE_EVERY = 2.0
"""Seconds between two savings of a message that grows."""
MOST_OPEN = 8
"""How many sessions are held in memory with their messages, beside those in which something is being said."""
LONGEST_TITLE = 60
UNTITLED = "New chat"

STOPPED = Finished(reason=StopReason.CANCELLED)
RESTARTED = Finished(reason=StopReason.CANCELLED, detail="The gateway was stopped while this was being said.")


class Kept(Value):
    """A session as it is stored; `head` is the last message of the branch that is shown."""

    summary: Summary
    head: str | None = None
    is_named: bool = False
    """Whether a person gave it its title."""


class Sent(Value, omit_defaults=False):
    """A message of the user, and the id of the one that answers it."""

    user: Turn
    assistant: str


class View(NamedTuple):
    """What is shown of a session: a branch, and which of its messages have alternatives."""

    summary: Summary
    turns: list[Turn]
    branches: dict[str, list[str]]
    running: str | None
    """The message that is being said."""


class _Session:
    """One session under way."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.branches: Branches | None = None
        self.draft: Draft | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.kept.summary.id

    @property
    def summary(self) -> Summary:
        return self.kept.summary

    def now(self, **fields: object) -> None:
        """Something about it is different now."""
        self.kept = replace(self.kept, summary=replace(self.kept.summary, **fields))

    def check_idle(self) -> None:
        if self.draft is not None:
            message = "Something is being said in this session already; stop it, or wait for its end."
            raise GatewayError("bad_request", message, status=409, code="running")


class Sessions:
    """All sessions of the page; `clock` is seconds since 1970."""

    def __init__(
        self,
        gateway: Gateway,
        store: Store,
        bus: Bus,
        tasks: Tasks,
        *,
        mint: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._gateway = gateway
        self._store = store
        self._bus = bus
        self._tasks = tasks
        self._mint = mint
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._is_loaded = False
        self._loading = asyncio.Lock()
        self._open: dict[str, None] = {}
        """The sessions whose messages are in memory, the one looked at last at the end."""
        gateway.inbox.listen(self._answered)

    async def summaries(self) -> list[Summary]:
        """All sessions, the newest first."""
        await self._load()
        return sorted((one.summary for one in self._sessions.values()), key=lambda one: one.updated, reverse=True)

    async def create(self, model: str, mode: str | None = None, effort: Effort | None = None) -> Summary:
        """A new session, with nothing in it."""
        await self._load()
        self._gateway.resolve(model)
        now = self._clock()
        summary = Summary(
            id=self._mint(), title=UNTITLED, model=model, mode=mode, effort=effort, created=now, updated=now
        )
        session = self._sessions[summary.id] = _Session(Kept(summary=summary))
        session.branches = Branches()
        self._opened(session)
        await self._changed(session)
        return session.summary

    async def change(self, session_id: str, **fields: object) -> Summary:
        """Give a session another title, model, mode or effort."""
        session = await self._find(session_id)
        if isinstance(model := fields.get("model"), str):
            self._gateway.resolve(model)
        if isinstance(title := fields.get("title"), str):
            fields["title"] = _shortened(title) or UNTITLED
            session.kept = replace(session.kept, is_named=True)
        session.now(**fields)
        await self._changed(session)
        return session.summary

    async def delete(self, session_id: str) -> None:
        """Forget a session."""
        session = await self._find(session_id)
        await self._stop(session)
        self._sessions.pop(session_id, None)
        self._open.pop(session_id, None)
        self._bus.tell(Gone(session_id))
        await self._store.remove(SHELF, session_id)
        await self._store.remove(_shelf(session_id))

    async def view(self, session_id: str) -> View:
        """What is shown of a session now."""
        session = await self._find(session_id)
        branches = await self._branches(session)
        if session.draft is not None:
            branches.put(session.draft.turn())
        turns = branches.path(session.kept.head)
        beside = {turn.id: ids for turn in turns if len(ids := list(branches.siblings(turn))) > 1}
        return View(session.summary, turns, beside, session.draft.id if session.draft else None)

    # ── Saying something ─────────────────────────────────────────────────────────────────────────

    async def send(self, session_id: str, parts: Sequence[Part], parent: str | None = None) -> Sent:
        """Say something, behind the last message or another one."""
        session = await self._find(session_id)
        branches = await self._branches(session)
        if not parts:
            raise BadRequest("there is nothing to send", "text")
        if parent is not None:
            branches.get(parent)
        return self._begin(session, branches, self._said(parent or session.kept.head, parts))

    async def retry(self, session_id: str) -> Sent:
        """Have the last message of the user answered once more."""
        session = await self._find(session_id)
        branches = await self._branches(session)
        path = branches.path(session.kept.head)
        user = next((turn for turn in reversed(path) if turn.role == "user"), None)
        if user is None:
            raise BadRequest("there is no message that could be answered again")
        return self._begin(session, branches, user)

    async def edit(self, session_id: str, message: str, text: str) -> Sent:
        """Say something else than in an earlier message; what came of that one stays beside it."""
        session = await self._find(session_id)
        branches = await self._branches(session)
        old = branches.get(message)
        if old.role != "user":
            raise BadRequest("only a message of the user can be edited", "message")
        parts = _reworded(old.parts, text)
        if not parts:
            raise BadRequest("there is nothing to send", "text")
        return self._begin(session, branches, self._said(old.parent, parts))

    async def branch(self, session_id: str, message: str) -> None:
        """Show the branch that goes through a message, and on from there to its newest end."""
        session = await self._find(session_id)
        branches = await self._branches(session)
        branches.get(message)
        session.check_idle()
        head = branches.newest(message)
        session.kept = replace(session.kept, head=head)
        session.now(messages=len(branches.path(head)))
        await self._changed(session)

    async def stop(self, session_id: str) -> None:
        """End what is being said."""
        await self._stop(await self._find(session_id))

    async def aclose(self) -> None:
        """End everything that is being said, and keep what there is of it."""
        await asyncio.gather(*(self._stop(session, RESTARTED) for session in list(self._sessions.values())))

    def _said(self, parent: str | None, parts: Sequence[Part]) -> Turn:
        return Turn(id=self._mint(), parent=parent, role="user", at=self._clock(), parts=tuple(parts))

    def _begin(self, session: _Session, branches: Branches, user: Turn) -> Sent:
        """Have a message answered. Nothing is waited for in here: two requests must not begin at once."""
        session.check_idle()
        is_new = user.id not in branches
        now = self._clock()
        summary = session.summary
        draft = session.draft = Draft(self._mint(), user.id, summary.model, now)
        branches.put(user)
        branches.put(draft.turn())
        path = branches.path(user.id)
        if not session.kept.is_named and (title := _title(path)):
            session.now(title=title)
        session.kept = replace(session.kept, head=draft.id)
        session.now(updated=now, running=True, messages=len(path) + 1)
        request = Request(
            model=summary.model,
            messages=tuple(_history(path)),
            stream=True,
            reasoning=Reasoning(effort=summary.effort),
            session=session.id,
            mode=summary.mode,
        )
        session.task = self._tasks.start(self._carry(session, draft, request, user if is_new else None), "session")
        if is_new:
            self._bus.tell(TurnNews(session.id, user))
        self._bus.tell(SessionNews(session.summary))
        return Sent(user=user, assistant=draft.id)

    async def _carry(self, session: _Session, draft: Draft, request: Request, user: Turn | None) -> None:
        """Take a leg to its end."""
        leg = self._gateway.leg(request, Asker(FRONTEND, CLIENT, "events", tools=True, has_background=False))
        try:
            if user is not None:
                await self._keep(session, user)
            await self._keep(session, draft.turn())
            await self._save(session)
            saved = self._clock()
            async for batch in leg:
                now = self._clock()
                draft.rounds = leg.rounds
                draft.add(batch, now)
                self._bus.tell(Said(session.id, draft.id, batch))
                if now - saved >= SAVE_EVERY:
                    saved = now
                    await self._keep(session, draft.turn())
        except asyncio.CancelledError:
            # Whoever cancels waits for what follows: what had come is kept.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        finally:
            await leg.aclose()
        await self._finish(session, draft)

    async def _stop(self, session: _Session, ending: Finished = STOPPED) -> None:
        draft, task = session.draft, session.task
        if draft is None or task is None:
            return
        draft.end(ending)
        task.cancel()
        await asyncio.wait([task])
        await self._finish(session, draft)

    async def _finish(self, session: _Session, draft: Draft) -> None:
        """A message is complete; it may be told twice, by its task and by whoever stopped that."""
        if session.draft is not draft:
            return
        session.draft = session.task = None
        draft.end(STOPPED)
        turn = draft.turn()
        (await self._branches(session)).put(turn)
        session.now(running=False, updated=self._clock(), usage=self._spent(session.summary, turn, draft.context))
        self._bus.tell(TurnNews(session.id, turn))
        self._bus.tell(SessionNews(session.summary))
        await self._keep(session, turn)
        await self._save(session)

    def _spent(self, summary: Summary, turn: Turn, context: int | None) -> SessionUsage:
        before = summary.usage
        info = self._gateway.known(summary.model)
        window = info.context if info is not None else None
        if turn.usage is None:
            return replace(before, window=window)
        return SessionUsage(
            input=before.input + turn.usage.prompt,
            output=before.output + turn.usage.output,
            context=context,
            window=window,
        )

    # ── Plans ────────────────────────────────────────────────────────────────────────────────────

    def _answered(self, origin: Origin, ask: InboxItem, answer: Answer) -> None:
        """Keep a plan in the message it belongs to; once it is approved, the session is no longer in plan mode."""
        session = self._sessions.get(origin.session)
        if session is None or session.draft is None or not isinstance(ask, PlanReview):
            return
        reviewed = answer if isinstance(answer, ReviewAnswer) else ReviewAnswer(approved=False)
        decision = _decision(reviewed)
        if reviewed.approved and session.summary.mode == PLAN_MODE:
            # Agents have modes of their own, and go on in the one that the approval means to them.
            mode = None if self._gateway.is_agent(session.summary.model) else AGENT_MODE
            session.now(mode=mode)
            decision += " Agent mode is on." if mode else " Plan mode is off."
            self._tasks.start(self._changed(session), "mode of a session")
        status: Status = "completed" if reviewed.approved else "failed"
        activity = Activity(
            id=f"plan:{self._mint()}", kind="plan", title=ask.title, status=status, output=decision, plan=ask.plan
        )
        session.draft.add([activity], self._clock())
        self._bus.tell(Said(session.id, session.draft.id, [activity]))

    # ── What is kept ─────────────────────────────────────────────────────────────────────────────

    async def _changed(self, session: _Session) -> None:
        self._bus.tell(SessionNews(session.summary))
        await self._save(session)

    async def _save(self, session: _Session) -> None:
        if session.id in self._sessions:
            await self._store.write(SHELF, session.id, msgspec.json.encode(session.kept))

    async def _keep(self, session: _Session, turn: Turn) -> None:
        if session.id in self._sessions:
            await self._store.write(_shelf(session.id), turn.id, msgspec.json.encode(turn))

    async def _load(self) -> None:
        """Read what the last gateway kept, once."""
        async with self._loading:
            if self._is_loaded:
                return
            for kept in _decoded((await self._store.read(SHELF)).values(), Kept):
                session = self._sessions[kept.summary.id] = _Session(kept)
                session.now(running=False)
            self._is_loaded = True

    async def _find(self, session_id: str) -> _Session:
        await self._load()
        session = self._sessions.get(session_id)
        if session is None:
            raise GatewayError("not_found", "There is no such session; it may have been deleted.")
        return session

    async def _branches(self, session: _Session) -> Branches:
        """The messages of a session; those of the ones looked at least lately are let go."""
        if session.branches is None:
            documents = await self._store.read(_shelf(session.id))
            if session.branches is None:
                session.branches = Branches(map(_ended, _decoded(documents.values(), Turn)))
        self._opened(session)
        return session.branches

    def _opened(self, session: _Session) -> None:
        self._open.pop(session.id, None)
        self._open[session.id] = None
        idle = [one for one in self._open if self._sessions[one].draft is None and one != session.id]
        for session_id in idle[: max(0, len(idle) - MOST_OPEN)]:
            self._sessions[session_id].branches = None
            del self._open[session_id]


def _decision(reviewed: ReviewAnswer) -> str:
    """What became of a plan, in words for the person who looks at it later."""
    if reviewed.approved:
        return "Approved."
    if reviewed.is_unanswered:
        return f"Not approved. {reviewed.feedback}".rstrip()
    return f"Rejected: {reviewed.feedback}" if reviewed.feedback else "Rejected."


def _shelf(session_id: str) -> str:
    return f"turns/{session_id}"


def _decoded(documents: Iterable[bytes], kind: type[T]) -> list[T]:
    found: list[T] = []
    for document in documents:
        try:
            found.append(msgspec.json.decode(document, type=kind))
        except (msgspec.DecodeError, UnicodeError) as error:
            log.warning("a %s that was kept cannot be read: %s", kind.__name__.lower(), error)
    return found


def _ended(turn: Turn) -> Turn:
    """A message of the model that has no end was being said when the gateway went away."""
    return replace(turn, ending=RESTARTED) if turn.role == "assistant" and turn.ending is None else turn


def _history(path: Sequence[Turn]) -> Iterable[Message]:
    """What the model is told: files that are text in words, since few upstreams take them as files."""
    for turn in path:
        yield from turn.rounds
        parts = turn.parts[_told_in(turn.rounds) :]
        if parts:
            yield Message(role=turn.role, parts=tuple(map(_worded, parts)))


def _told_in(rounds: Sequence[Message]) -> int:
    """How many parts of a message stand in its rounds already: all but the calls, which the page has as activities."""
    said = (part for message in rounds if message.role == "assistant" for part in message.parts)
    return sum(not isinstance(part, ToolCall) for part in said)


def _worded(part: Part) -> Part:
    if not isinstance(part, File) or not part.media_type.startswith("text/") or part.data is None:
        return part
    try:
        text = base64.b64decode(part.data).decode("utf-8", "replace")
    except ValueError:
        return part
    return Text(text=f'<file path="{part.name}">\n{text}\n</file>')


def _reworded(parts: Sequence[Part], text: str) -> list[Part]:
    """The parts with other words in place of the first text."""
    first = next((place for place, part in enumerate(parts) if isinstance(part, Text)), None)
    rest = [part for place, part in enumerate(parts) if place != first]
    return [*([Text(text=text)] if text.strip() else []), *rest]


def _title(path: Sequence[Turn]) -> str:
    """The first words of the user; the fence of a code block says nothing."""
    first = next((part.text for part in path[0].parts if isinstance(part, Text)), "") if path else ""
    lines = first[:1000].splitlines()
    return _shortened(" ".join(line for line in lines if not line.lstrip().startswith("```")))


def _shortened(text: str) -> str:
    words = " ".join(text[:1000].split())
    return words if len(words) <= LONGEST_TITLE else f"{words[: LONGEST_TITLE - 1].rstrip()}…"
