"""The web page's sessions: their messages, the message being generated, and their storage.

The summaries of all sessions are kept in memory; messages are loaded from the store on demand. While the model's
message is being generated, it is stored regularly. If the gateway stops before the message is complete, the version
stored last is kept, with the ending *cancelled*.

If replicas share the store, a session is read again before it is shown or changed, and claimed while it is changed
(see `claims`). Changes are then stored before they are published, so a page that receives one finds it on any replica.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tieline.core.legs.access import ALL_RIGHTS, Rights
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient, WatchedLeg
from tieline.core.sessions.claims import HeldClaims, SessionClaims
from tieline.core.sessions.message_draft import MessageDraft
from tieline.core.sessions.message_tree import MessageTree
from tieline.core.sessions.messages import model_history, shorten_title, title_from, with_new_text
from tieline.core.sessions.stored_session import RESTARTED, SHELF, StoredSession, decoded, ended, turns_shelf
from tieline.core.watch.bus import Bus, BusEvent, MessageEvents, SessionChanged, SessionDeleted, TurnCompleted
from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Part, Value
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Activity, Finished, Status, StopReason
from tieline.model.inbox import Answer, InboxItem, Origin, PlanReview, ReviewAnswer
from tieline.model.ports import Store, Toolbox
from tieline.model.request import Effort, Reasoning, Request
from tieline.model.scope import EVERYTHING, NOWHERE, Place, Scope
from tieline.model.session import SessionUsage, Summary, Turn
from tieline.tasks import Tasks

FRONTEND = "web"
CLIENT = "web page"
PLAN_MODE, AGENT_MODE = "plan", "agent"
SAVE_EVERY = 2.0
"""Seconds between two saves of a message that is being generated."""
MAX_OPEN = 8
"""Maximum number of idle sessions whose messages are kept in memory."""
UNTITLED = "New chat"

STOPPED = Finished(reason=StopReason.CANCELLED)


class SentMessage(Value, omit_defaults=False):
    """A message that the user sent, and the id of the message that answers it."""

    user: Turn
    assistant: str


class SessionView(NamedTuple):
    """The displayed branch of a session. `branches` maps the id of a message to the ids of its alternatives."""

    summary: Summary
    turns: list[Turn]
    branches: dict[str, list[str]]
    running: str | None
    """The id of the message that this gateway is generating; None if there is none, or if another replica does it."""


class _LiveSession:
    """A session and its state in memory."""

    def __init__(self, stored: StoredSession) -> None:
        self.stored = stored
        self.tree: MessageTree | None = None
        """All messages while one is being generated, otherwise None. `PageSessions._trees` caches the messages of idle
        sessions, unless replicas share the store."""
        self.draft: MessageDraft | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.stored.summary.id

    @property
    def summary(self) -> Summary:
        return self.stored.summary

    def update(self, **fields: object) -> None:
        """Change fields of the summary."""
        self.stored = replace(self.stored, summary=replace(self.stored.summary, **fields))

    def check_idle(self) -> None:
        if self.draft is not None:
            message = "A message is already being generated in this session; stop it or wait until it is complete."
            raise GatewayError("bad_request", message, status=409, code="running")


OpenExample = Callable[[str], Awaitable[Toolbox | None]]
"""A function that returns the tools for an example session with a model; None if examples do not support the model."""


async def no_examples(_: str) -> Toolbox | None:
    """Return None: no model supports examples."""
    return None


class PageSessions:
    """All sessions of the web page.

    `clock` returns Unix time, `examples` the tools for example sessions, and `rights` the rights of an owner. `claims`
    are the claims of the replicas that use the same store; None if there is only this gateway.
    """

    def __init__(
        self,
        gateway: Gateway,
        store: Store,
        bus: Bus,
        tasks: Tasks,
        *,
        mint: Callable[[], str],
        clock: Callable[[], float],
        examples: OpenExample = no_examples,
        rights: Callable[[str], Rights] = lambda _: ALL_RIGHTS,
        claims: SessionClaims | None = None,
    ) -> None:
        self._examples = examples
        self._rights = rights
        self._gateway = gateway
        self._store = store
        self._bus = bus
        self._tasks = tasks
        self._mint = mint
        self._clock = clock
        self._sessions: dict[str, _LiveSession] = {}
        self._is_loaded = False
        self._loading = asyncio.Lock()
        self._trees: BoundedCache[str, MessageTree] = BoundedCache(MAX_OPEN)
        """Cache of the messages of idle sessions, by session id."""
        self._claims = claims
        self._held = None if claims is None else HeldClaims(claims, tasks)
        self._stale: set[str] = set()
        """The sessions that other replicas have changed since they were read."""
        if claims is not None:
            claims.listen(self._on_change_elsewhere, self._on_orphan, self._is_stored)
        gateway.inbox.listen(self._on_answer)

    async def summaries(self, scope: Scope = EVERYTHING) -> list[Summary]:
        """Return the summaries of the sessions of a scope, the most recently updated first."""
        await self._load()
        found = [one for one in self._sessions.values() if scope.covers(*one.summary.place)]
        for session in found:
            self._check_replica(session)
        return sorted((one.summary for one in found), key=lambda one: one.updated, reverse=True)

    async def summary(self, session_id: str, scope: Scope = EVERYTHING) -> Summary:
        """Return the summary of a session. Raise GatewayError if the scope has no such session."""
        found = (await self._find(session_id)).summary
        if not scope.covers(*found.place):
            raise _no_such_session()
        return found

    def holder(self, session_id: str) -> str:
        """Return the other replica that was generating a message when the session was last read; empty if none was."""
        session = self._sessions.get(session_id)
        is_elsewhere = session is not None and session.draft is None and session.summary.running
        return session.stored.replica if session is not None and is_elsewhere else ""

    async def create(
        self,
        model: str,
        mode: str | None = None,
        effort: Effort | None = None,
        *,
        example: bool = False,
        place: Place = NOWHERE,
    ) -> Summary:
        """Create an empty session. An `example` has tools of its own, in a folder with sample files."""
        await self._load()
        self._gateway.models.resolve(model)
        if example and await self._examples(model) is None:
            raise BadRequest(f"there are no examples for the model `{model}`", "example")
        now = self._clock()
        summary = Summary(
            id=self._mint(),
            title=UNTITLED,
            model=model,
            mode=mode,
            effort=effort,
            created=now,
            updated=now,
            example=example,
            owner=place.owner,
            workspace=place.workspace,
        )
        session = self._sessions[summary.id] = _LiveSession(StoredSession(summary=summary))
        if self._claims is None:
            self._trees.put(session.id, MessageTree())
        await self._changed(session)
        return session.summary

    async def change(self, session_id: str, **fields: object) -> Summary:
        """Change the title, model, mode or effort of a session."""
        async with self._changing(session_id) as session:
            if isinstance(model := fields.get("model"), str):
                self._gateway.models.resolve(model)
            if isinstance(title := fields.get("title"), str):
                fields["title"] = shorten_title(title) or UNTITLED
                session.stored = replace(session.stored, is_named=True)
            session.update(**fields)
            await self._changed(session)
            return session.summary

    async def delete(self, session_id: str) -> None:
        """Delete a session. If a message is being generated in it, stop generating it first."""
        async with self._changing(session_id) as session:
            await self._stop(session)
            self._sessions.pop(session_id, None)
            self._trees.pop(session_id)
            deleted = SessionDeleted(session_id, session.summary.place)
            if self._claims is None:
                self._bus.publish(deleted)
            await self._store.remove(SHELF, session_id)
            await self._store.remove(turns_shelf(session_id))
            if self._claims is not None:
                self._bus.publish(deleted)

    async def view(self, session_id: str) -> SessionView:
        """Return the displayed branch of a session."""
        session = await self._find(session_id)
        tree = await self._tree(session)
        if session.draft is not None:
            tree.put(session.draft.turn())
        turns = tree.path(session.stored.head)
        beside = {turn.id: ids for turn in turns if len(ids := list(tree.siblings(turn))) > 1}
        return SessionView(session.summary, turns, beside, session.draft.id if session.draft else None)

    # ── Messages ─────────────────────────────────────────────────────────────────────────────────

    async def send(self, session_id: str, parts: Sequence[Part], parent: str | None = None) -> SentMessage:
        """Add a user message after the message `parent` (by default the last one), and start answering it."""
        async with self._changing(session_id) as session:
            tree = await self._tree(session)
            if not parts:
                raise BadRequest("`text` is empty: expected text or an attachment", "text")
            if parent is not None:
                tree.get(parent)
            return self._begin(session, tree, self._user_turn(parent or session.stored.head, parts))

    async def retry(self, session_id: str) -> SentMessage:
        """Start another answer to the user's last message."""
        async with self._changing(session_id) as session:
            tree = await self._tree(session)
            path = tree.path(session.stored.head)
            user = next((turn for turn in reversed(path) if turn.role == "user"), None)
            if user is None:
                raise BadRequest("the session has no message of the user to answer again")
            return self._begin(session, tree, user)

    async def edit(self, session_id: str, message: str, text: str) -> SentMessage:
        """Send an earlier user message again with `text` as its new text. The original is kept as an alternative."""
        async with self._changing(session_id) as session:
            tree = await self._tree(session)
            old = tree.get(message)
            if old.role != "user":
                raise BadRequest("`message` must be the id of a message of the user", "message")
            parts = with_new_text(old.parts, text)
            if not parts:
                raise BadRequest("`text` is empty: expected text or an attachment", "text")
            return self._begin(session, tree, self._user_turn(old.parent, parts))

    async def branch(self, session_id: str, message: str) -> None:
        """Display the branch that contains a message and, after it, the newest messages."""
        async with self._changing(session_id) as session:
            tree = await self._tree(session)
            tree.get(message)
            session.check_idle()
            head = tree.newest(message)
            session.stored = replace(session.stored, head=head)
            session.update(messages=len(tree.path(head)))
            await self._changed(session)

    async def stop(self, session_id: str) -> None:
        """Stop generating the current message, if there is one."""
        async with self._changing(session_id) as session:
            await self._stop(session)

    async def stop_workspace(self, workspace: str) -> None:
        """Stop generating messages in all sessions of a workspace. Other replicas are not affected."""
        there = [session for session in self._sessions.values() if session.summary.workspace == workspace]
        await asyncio.gather(*(self._stop(session) for session in there))

    async def aclose(self) -> None:
        """Stop generating messages in all sessions, and store the parts that have been received."""
        await asyncio.gather(*(self._stop(session, RESTARTED) for session in list(self._sessions.values())))

    def _user_turn(self, parent: str | None, parts: Sequence[Part]) -> Turn:
        return Turn(id=self._mint(), parent=parent, role="user", at=self._clock(), parts=tuple(parts))

    def _begin(self, session: _LiveSession, tree: MessageTree, user: Turn) -> SentMessage:
        """Start the answer to a user's message. This never awaits, so two answers cannot start at the same time."""
        session.check_idle()
        session.tree = tree
        is_new = user.id not in tree
        now = self._clock()
        summary = session.summary
        draft = session.draft = MessageDraft(self._mint(), user.id, summary.model, now)
        tree.put(user)
        tree.put(draft.turn())
        path = tree.path(user.id)
        if not session.stored.is_named and (title := title_from(path)):
            session.update(title=title)
        replica = "" if self._claims is None else self._claims.replica
        session.stored = replace(session.stored, head=draft.id, replica=replica)
        session.update(updated=now, running=True, messages=len(path) + 1)
        request = Request(
            model=summary.model,
            messages=tuple(model_history(path)),
            stream=True,
            reasoning=Reasoning(effort=summary.effort),
            session=session.id,
            mode=summary.mode,
        )
        if self._held is not None:
            self._held.hold_longer(session.id)
        session.task = self._tasks.start(self._generate(session, draft, request, user if is_new else None), "session")
        if self._claims is None:
            self._publish_begun(session, user if is_new else None)
        return SentMessage(user=user, assistant=draft.id)

    def _publish_begun(self, session: _LiveSession, user: Turn | None) -> None:
        if user is not None:
            self._bus.publish(TurnCompleted(session.id, user, session.summary.place))
        self._bus.publish(SessionChanged(session.summary))

    async def _generate(self, session: _LiveSession, draft: MessageDraft, request: Request, user: Turn | None) -> None:
        """Run the leg that generates a message. `user` is a new user message to store first, if any."""
        leg: WatchedLeg | None = None
        try:
            if user is not None:
                await self._save_turn(session, user)
            await self._save_turn(session, draft.turn())
            await self._save(session)
            if self._claims is not None:
                self._publish_begun(session, user)
            saved = self._clock()
            toolbox = await self._examples(request.model) if session.summary.example else None
            place = session.summary.place
            rights = self._rights(place.owner)
            client = LegClient(
                FRONTEND,
                CLIENT,
                "events",
                gets_tools=rights.tools,
                sends_background=False,
                access=rights.access,
                toolbox=toolbox,
                owner=place.owner,
                workspace=place.workspace,
            )
            leg = await self._gateway.open(request, client)
            async for batch in leg:
                now = self._clock()
                draft.rounds = leg.rounds
                draft.add(batch, now)
                self._bus.publish(MessageEvents(session.id, draft.id, batch, place))
                if now - saved >= SAVE_EVERY:
                    saved = now
                    await self._save_turn(session, draft.turn())
        except asyncio.CancelledError:
            # `_stop` cancels and then waits for this task, which stores the parts that have been received.
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        finally:
            if leg is not None:
                await leg.aclose()
        await self._finish(session, draft)

    async def _stop(self, session: _LiveSession, ending: Finished = STOPPED) -> None:
        draft, task = session.draft, session.task
        if task is None:
            return
        if draft is not None:  # otherwise the message is complete, but may not be stored yet
            draft.end(ending)
            task.cancel()
        await asyncio.wait([task])
        if draft is not None:
            await self._finish(session, draft)

    async def _finish(self, session: _LiveSession, draft: MessageDraft) -> None:
        """Store a complete or stopped message.

        If `_generate` and `_stop` both call this, the second call does nothing.
        """
        if session.draft is not draft:
            return
        session.draft = None
        draft.end(STOPPED)
        turn = draft.turn()
        (await self._tree(session)).put(turn)
        session.update(
            running=False, updated=self._clock(), usage=self._total_usage(session.summary, turn, draft.context)
        )
        session.stored = replace(session.stored, replica="")
        completed = TurnCompleted(session.id, turn, session.summary.place)
        if self._claims is None:
            self._bus.publish(completed)
            await self._changed(session, turn)
        elif await self._claims.is_claimed(session.id):
            await self._changed(session, turn, completed)
        else:  # this replica seemed to be dead, and another one has changed the session
            await self._save_turn(session, turn)
            self._bus.publish(completed)
        self._unpin(session)
        if self._held is not None:
            await self._held.let_go(session.id)

    def _total_usage(self, summary: Summary, turn: Turn, context: int | None) -> SessionUsage:
        before = summary.usage
        info = self._gateway.models.known(summary.model)
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

    def _on_answer(self, origin: Origin, item: InboxItem, answer: Answer) -> None:
        """After a plan review, add the plan to the message being generated.

        If the plan is approved, leave plan mode.
        """
        session = self._sessions.get(origin.session)
        if session is None or session.draft is None or not isinstance(item, PlanReview):
            return
        reviewed = answer if isinstance(answer, ReviewAnswer) else ReviewAnswer(approved=False)
        decision = _decision(reviewed)
        if reviewed.approved and session.summary.mode == PLAN_MODE:
            # Agents have their own modes, and switch them on their own after the approval.
            mode = None if self._gateway.models.is_agent(session.summary.model) else AGENT_MODE
            session.update(mode=mode)
            decision += " Agent mode is on." if mode else " Plan mode is off."
            self._tasks.start(self._changed(session), "mode of a session")
        status: Status = "completed" if reviewed.approved else "failed"
        activity = Activity(
            id=f"plan:{self._mint()}", kind="plan", title=item.title, status=status, output=decision, plan=item.plan
        )
        session.draft.add([activity], self._clock())
        self._bus.publish(MessageEvents(session.id, session.draft.id, [activity], session.summary.place))

    # ── Storage ──────────────────────────────────────────────────────────────────────────────────

    async def _changed(self, session: _LiveSession, turn: Turn | None = None, *events: BusEvent) -> None:
        """Store `turn`, if given, and the session. Publish the change; with replicas, publish `events` before it."""
        if self._claims is None:
            self._bus.publish(SessionChanged(session.summary))
        if turn is not None:
            await self._save_turn(session, turn)
        await self._save(session)
        if self._claims is not None:
            for event in (*events, SessionChanged(session.summary)):
                self._bus.publish(event)

    async def _save(self, session: _LiveSession) -> None:
        if session.id in self._sessions:
            await self._store.write(SHELF, session.id, msgspec.json.encode(session.stored))

    async def _save_turn(self, session: _LiveSession, turn: Turn) -> None:
        if session.id in self._sessions:
            await self._store.write(turns_shelf(session.id), turn.id, msgspec.json.encode(turn))

    async def _load(self) -> None:
        """Load all sessions if necessary. Then read those again that other replicas have changed."""
        async with self._loading:
            if not self._is_loaded:
                # A change that is announced from now on makes the list stale again.
                self._is_loaded = True
                self._stale.clear()
                found = decoded((await self._store.read(SHELF)).values(), StoredSession)
                if self._claims is not None and not self._claims.is_available:
                    self._is_loaded = False
                    return
                for session_id in self._sessions.keys() - {stored.summary.id for stored in found}:
                    self._replace(session_id, None)
                for stored in found:
                    self._replace(stored.summary.id, stored)
            while self._stale:
                await self._read(self._stale.pop())

    async def _find(self, session_id: str) -> _LiveSession:
        await self._load()
        if self._claims is not None:
            await self._read(session_id)
        session = self._sessions.get(session_id)
        if session is None:
            raise _no_such_session()
        return session

    async def _read(self, session_id: str) -> None:
        """Read a session again, unless this replica has claimed it."""
        if self._held is not None and session_id in self._held:
            return
        found = await self._store.get(SHELF, session_id)
        if found is not None or (self._claims is not None and self._claims.is_available):
            stored = decoded([] if found is None else [found], StoredSession)
            self._replace(session_id, stored[0] if stored else None)

    def _replace(self, session_id: str, stored: StoredSession | None) -> None:
        """Replace a session with the version in the store, unless this replica has claimed it."""
        if self._held is not None and session_id in self._held:
            return
        if stored is None:
            self._sessions.pop(session_id, None)
            return
        session = self._sessions.setdefault(session_id, _LiveSession(stored))
        session.stored = stored
        self._check_replica(session)

    def _check_replica(self, session: _LiveSession) -> None:
        """Mark a session as idle if the process that was generating a message in it is gone."""
        if session.draft is None and session.summary.running:
            replica = session.stored.replica
            if self._claims is None or replica == self._claims.replica or not self._claims.is_alive(replica):
                session.update(running=False)

    @asynccontextmanager
    async def _changing(self, session_id: str) -> AsyncGenerator[_LiveSession, None]:
        """Let only this replica change a session until the context is left and no message is being generated.

        Raise SessionElsewhere if another replica is changing it.
        """
        if self._held is None:
            yield await self._find(session_id)
            return
        await self._load()
        await self._held.hold(session_id, lambda: self._read(session_id))
        try:
            yield await self._find(session_id)
        finally:
            await self._held.let_go(session_id)

    def _on_change_elsewhere(self, session_id: str) -> None:
        if session_id:
            self._stale.add(session_id)
        else:
            self._is_loaded = False

    def _is_stored(self, session_id: str) -> bool:
        return self._store.is_written(SHELF, session_id) and self._store.is_written(turns_shelf(session_id))

    async def _on_orphan(self, session_id: str) -> None:
        """End the message that a dead replica was generating, so that open pages do not wait for it."""
        with suppress(GatewayError):
            async with self._changing(session_id) as session:
                if session.draft is None and session.stored.replica:
                    session.stored = replace(session.stored, replica="")
                    turn = next(iter((await self._tree(session)).path(session.stored.head)[-1:]), None)
                    events = [] if turn is None else [TurnCompleted(session_id, turn, session.summary.place)]
                    await self._changed(session, turn, *events)

    async def _tree(self, session: _LiveSession) -> MessageTree:
        """Return the messages of a session, from memory or from the store."""
        tree = session.tree or self._trees.get(session.id)
        if tree is None:
            documents = await self._store.read(turns_shelf(session.id))
            # Another request may have loaded them during the await.
            tree = session.tree or self._trees.get(session.id)
            if tree is None:
                tree = MessageTree(map(ended, decoded(documents.values(), Turn)))
                if self._claims is None:
                    self._trees.put(session.id, tree)
        return tree

    def _unpin(self, session: _LiveSession) -> None:
        """Move the messages of an idle session to the cache, which may drop them."""
        if session.draft is None and session.tree is not None:
            if self._claims is None:
                self._trees.put(session.id, session.tree)
            session.tree = None


def _no_such_session() -> GatewayError:
    return GatewayError("not_found", "There is no such session; it may have been deleted.")


def _decision(reviewed: ReviewAnswer) -> str:
    """Return the outcome of a plan review as text."""
    if reviewed.approved:
        return "Approved."
    if reviewed.is_unanswered:
        return f"Not approved. {reviewed.feedback}".rstrip()
    return f"Rejected: {reviewed.feedback}" if reviewed.feedback else "Rejected."
