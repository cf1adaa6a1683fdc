"""A live run: its legs, the tool results submitted to it, and the attempts that it makes.

Theory of operation
-------------------

A run talks to the service through an `Attempt`, one stream at a time. If the stream breaks, the token expires or the
service stalls in the middle of a leg, a new attempt continues where the old one stopped: text that the client has seen
is neither lost nor repeated. Meanwhile, the run stays `IN_LEG`.

Between two legs the attempt stays open (`PARKED`). If it ends before the next leg, the run is `LOST`: the next leg
opens a new attempt from the whole history. A run that ends a turn with a plan waits for the user's next message
(`AWAITING_REPLY`).

A leg passes through the phases of `LegPhase`, however many attempts it takes. Its events are held until the first one
with content arrives (`DELIVERING`). Until then, a failure can still be reported to the client as a status code instead
of a broken stream.

An event that the tables below do not allow is a bug in the caller and raises `IllegalTransition`.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Self

from msgspec.structs import replace

from tieline.backends.cursor.attempt import Attempt
from tieline.backends.cursor.conversations import ConversationState, CursorConversation
from tieline.backends.cursor.pipes import AttemptIds
from tieline.backends.cursor.recovery import BROKEN, SILENT, Recovery, Remedy, RestartFrom
from tieline.backends.cursor.run_services import RunServices
from tieline.backends.cursor.tokens import owner_of
from tieline.model.content import Message, Part, Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartEnd, Started, StopReason
from tieline.model.ports import Host, Leg
from tieline.model.request import Request
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.run_request import (
    Opening,
    continues,
    open_run,
    plain_user_text,
    resume_run,
)
from tieline.wire.cursor.run.machine import CursorRun
from tieline.wire.cursor.run.states import transition_table
from tieline.wire.cursor.stored_state import Blobs

LOST = "the run was over when the results came: replayed the history"

_STATE_IS_GOOD = (BROKEN, SILENT, "cursor_incomplete", "cursor_unauthenticated")
"""Failures after which the stored state of the last turn can still be used. After others, the history is replayed."""

_HELD = (Started, Note)
"""Events without content. They are held, because they may arrive long before it is certain that the service answers."""


class LiveRunState(Enum):
    """The states of a live run."""

    NEW = "new"
    """No attempt has been made yet."""
    IN_LEG = "in leg"
    PARKED = "parked"
    """The last leg has ended, but its attempt is still open."""
    LOST = "lost"
    """The attempt has ended. The next leg will replay the history."""
    AWAITING_REPLY = "awaiting reply"
    """The turn ended with a plan. `CursorConversations` keeps the run until the user's next message."""
    CLOSED = "closed"


class LiveRunEvent(Enum):
    """The events that change the state of a live run."""

    LEG_BEGINS = "leg begins"
    LEG_FINISHES = "leg finishes"
    ATTEMPT_LOST = "attempt lost"
    """The attempt broke or was closed, and no new attempt was started."""
    KEPT = "kept"
    """The caller closed the run, but it is kept, because it waits for the user's reply to its plan."""
    REPLIED = "replied"
    CLOSED = "closed"


# Names after "Seen in" are tests in tests/backends that require the transition.
LIVE_RUN_TRANSITIONS = transition_table(
    {
        LiveRunState.NEW: {
            LiveRunEvent.LEG_BEGINS: LiveRunState.IN_LEG,
            LiveRunEvent.CLOSED: LiveRunState.CLOSED,
        },
        LiveRunState.IN_LEG: {
            LiveRunEvent.LEG_FINISHES: LiveRunState.PARKED,
            # The leg failed for good, as in test_a_failure_before_the_first_part_is_one_batch
            LiveRunEvent.ATTEMPT_LOST: LiveRunState.LOST,
            # Seen in test_a_run_can_be_closed_while_it_waits_for_its_next_try
            LiveRunEvent.CLOSED: LiveRunState.CLOSED,
        },
        LiveRunState.PARKED: {
            LiveRunEvent.LEG_BEGINS: LiveRunState.IN_LEG,
            # Seen in test_calls_that_were_made_are_handed_over_though_the_stream_broke
            # Seen in test_a_run_that_died_between_two_legs_is_opened_anew_under_another_id
            LiveRunEvent.ATTEMPT_LOST: LiveRunState.LOST,
            LiveRunEvent.KEPT: LiveRunState.AWAITING_REPLY,
            LiveRunEvent.CLOSED: LiveRunState.CLOSED,
        },
        LiveRunState.LOST: {
            LiveRunEvent.LEG_BEGINS: LiveRunState.IN_LEG,
            LiveRunEvent.ATTEMPT_LOST: LiveRunState.LOST,
            LiveRunEvent.CLOSED: LiveRunState.CLOSED,
        },
        LiveRunState.AWAITING_REPLY: {
            LiveRunEvent.REPLIED: LiveRunState.PARKED,
            LiveRunEvent.CLOSED: LiveRunState.CLOSED,
        },
        LiveRunState.CLOSED: {LiveRunEvent.CLOSED: LiveRunState.CLOSED},
    }
)


class LegPhase(Enum):
    """The phases of a leg."""

    NEW = "new"
    """No request has been sent to the service yet."""
    OPENING = "opening"
    """An attempt is being opened; the service has not started the leg yet."""
    STARTED = "started"
    """The service has started the leg, but its events are still held. A retry continues the leg."""
    DELIVERING = "delivering"
    """The client has received the first events."""
    FINISHED = "finished"
    FAILED = "failed"
    """The leg has failed, or its run was closed before the leg was complete."""


class LegEvent(Enum):
    """The events that change the phase of a leg."""

    OPENED = "opened"
    STARTED = "started"
    CONTENT = "content"
    FINISHED = "finished"
    FAILED = "failed"


LEG_TRANSITIONS = transition_table(
    {
        LegPhase.NEW: {LegEvent.OPENED: LegPhase.OPENING},
        LegPhase.OPENING: {
            LegEvent.STARTED: LegPhase.STARTED,
            LegEvent.FAILED: LegPhase.FAILED,  # Seen in test_a_token_that_cannot_be_renewed_is_what_the_client_hears
        },
        LegPhase.STARTED: {
            LegEvent.STARTED: LegPhase.STARTED,
            LegEvent.CONTENT: LegPhase.DELIVERING,  # Seen in test_the_first_batch_has_something_to_say
            LegEvent.FAILED: LegPhase.FAILED,  # Seen in test_a_failure_before_the_first_part_is_one_batch
        },
        LegPhase.DELIVERING: {
            LegEvent.FINISHED: LegPhase.FINISHED,
            LegEvent.FAILED: LegPhase.FAILED,
        },
        LegPhase.FINISHED: {},
        LegPhase.FAILED: {},
    }
)


class LegProgress:
    """The progress of the current leg: its phase, its retries, its finished parts and its held events."""

    def __init__(self) -> None:
        self.recovery: Recovery | None = None
        """The object that decides on retries; None before the first failure."""
        self.reply: list[Part] = []
        """The finished parts of the leg."""
        self.notes: list[Note] = []
        """Notes to insert as soon as the leg has started."""
        self.phase = LegPhase.NEW
        self._held: list[Event] = []

    @property
    def has_started(self) -> bool:
        return self.phase not in (LegPhase.NEW, LegPhase.OPENING)

    @property
    def is_over(self) -> bool:
        return self.phase in (LegPhase.FINISHED, LegPhase.FAILED)

    def change(self, event: LegEvent) -> None:
        """Change the phase as LEG_TRANSITIONS defines. No other code may set the phase."""
        self.phase = LEG_TRANSITIONS[self.phase][event]

    def notice_start(self, events: Sequence[Event]) -> None:
        """Record that the leg has started, if these events begin with Started."""
        if events and type(events[0]) is Started:
            self.change(LegEvent.STARTED)

    def deliver(self, events: list[Event]) -> list[Event]:
        """Return the events to pass to the client: none while events are held, then the held ones and `events`."""
        self.reply += [event.part for event in events if type(event) is PartEnd]
        self.notice_start(events)
        if self.notes and self.has_started:
            place = 1 if type(events[0]) is Started else 0
            events[place:place] = self.notes
            self.notes = []
        if self.phase is not LegPhase.DELIVERING:
            self._held += events
            if all(type(event) in _HELD for event in events):
                return []
            events, self._held = self._held, []
        self._notice_content(events[-1])
        return events

    def _notice_content(self, last: Event) -> None:
        if self.phase is LegPhase.STARTED and type(last) is not Failed:
            self.change(LegEvent.CONTENT)
        if type(last) is Finished:
            self.change(LegEvent.FINISHED)
        elif type(last) is Failed:
            self.change(LegEvent.FAILED)


class LiveRun:
    """A run with Cursor's service. It may continue after the leg in which it was opened.

    If Cursor asks a question, it is passed to the person behind `host.human`.
    """

    def __init__(self, service: RunServices, request: Request, host: Host | None = None) -> None:
        self._service = service
        self._request = request
        self._human = host.human if host is not None else None
        self._state = LiveRunState.NEW
        self._conversation: CursorConversation | None = None
        self._last_turn: ConversationState | None = None
        """The stored state of the conversation's last turn.

        None if this turn does not continue from it, or no longer can, because a leg of this turn has been answered.
        """
        self._client_messages = request.messages
        """The messages in the client's last request."""
        self._shown: list[Part] = []
        """The texts sent to the client since its last request, in legs that ended with calls to gateway tools."""
        self._run_id = service.mint_id()
        self._attempt: Attempt | None = None
        self._attempts = 0
        """The number of attempts made so far."""
        self._token = ""
        self._owner = ""
        """Identifies the account to which the token belongs, and the client's key."""
        self._has_retried = False
        """Whether an attempt failed during a leg. If so, the service and the client may have different text."""
        self._transport = service.transport()
        self._leg = LegProgress()

    def _change(self, event: LiveRunEvent) -> None:
        """Change the state as LIVE_RUN_TRANSITIONS defines. No other code may set the state."""
        self._state = LIVE_RUN_TRANSITIONS[self._state][event]

    @property
    def state(self) -> LiveRunState:
        return self._state

    @property
    def pending(self) -> frozenset[str]:
        attempt = self._living_attempt
        return attempt.machine.pending if attempt is not None else frozenset()

    @property
    def _living_attempt(self) -> Attempt | None:
        attempt = self._attempt
        return attempt if attempt is not None and not attempt.is_closed else None

    # ── The interface of a run ───────────────────────────────────────────────────────────────────

    def leg(self) -> Leg:
        self._leg = LegProgress()
        return _LiveLeg(self, self._leg)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Submit tool results and the user's text (`words`) to the attempt that waits for them.

        If the attempt is closed, the next leg replays the history. `request` is the client's request with the results;
        None if the gateway ran the tools.
        """
        attempt, self._last_turn = self._living_attempt, None
        if attempt is not None and request is not None and not _offer_the_same(request, self._request):
            attempt.machine.set_tools(OfferedTools.of_request(request, self._service.schemas))
        if request is None:
            self._shown += [part for part in self._leg.reply if type(part) is Text]
        else:
            self._shown, self._client_messages = [], request.messages
        self._request = request or self._with_results(results, words)
        if attempt is None:
            self._lose()
            return
        attempt.machine.answer(results, words)
        attempt.push()

    async def aclose(self) -> None:
        if self._state in (LiveRunState.AWAITING_REPLY, LiveRunState.CLOSED):
            return
        attempt = self._living_attempt
        is_finished = self._leg.phase is LegPhase.FINISHED
        if self._conversation is not None:
            self._close_conversation(self._conversation, is_finished=is_finished)
            if is_finished and attempt is not None and attempt.machine.awaits_reply:
                self._change(LiveRunEvent.KEPT)
                self._service.conversations.wait(self._conversation, self)
                return
        self._drop(LiveRunEvent.CLOSED)

    # ── Waiting for the reply to a plan ──────────────────────────────────────────────────────────

    def reply(self, request: Request, host: Host | None) -> bool:
        """Submit the user's reply to the plan. If that is not possible, close the run and return False."""
        attempt, conversation = self._living_attempt, self._conversation
        text = plain_user_text(request) if request.model == self._request.model else ""
        if attempt is None or conversation is None or not text:
            self._drop(LiveRunEvent.CLOSED)
            return False
        self._change(LiveRunEvent.REPLIED)
        conversation.is_live = True
        self._request, self._client_messages, self._shown = request, request.messages, []
        self._last_turn = None
        self._human = attempt.human = host.human if host is not None else None
        attempt.machine.set_tools(OfferedTools.of_request(request, self._service.schemas))
        attempt.machine.reply_to_plan(text)
        attempt.push()
        return True

    def give_up(self) -> None:
        """Close the run, because the user's reply did not arrive in time."""
        self._drop(LiveRunEvent.CLOSED)

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    async def begin(self) -> None:
        """Begin a leg. Use the attempt that is still open, or make a new one."""
        if self._state is LiveRunState.LOST:
            self._leg.notes.append(Note(kind="retry", message=LOST))
        self._change(LiveRunEvent.LEG_BEGINS)
        attempt = self._attempt
        if attempt is None:
            await self._open(Remedy(), None)
            return
        attempt.machine.begin(self._service.mint_leg(), self._request.model)
        attempt.add_events(attempt.machine.pull())
        attempt.push()
        attempt.watch()

    async def next_events(self) -> list[Event]:
        """Return the next events of the leg, or an empty list once it is over."""
        while (attempt := self._attempt) is not None:
            events = await attempt.events()
            if not events:
                return []
            last = events[-1]
            if type(last) is Failed:
                self._has_retried = True
                events = await self._recover(attempt, events, last)
            elif type(last) is Finished:
                attempt.unwatch()
            if events and (events := self._leg.deliver(events)):
                self._notice_ending()
                return events
        return []

    def _notice_ending(self) -> None:
        if self._leg.phase is LegPhase.FINISHED:
            self._change(LiveRunEvent.LEG_FINISHES)
        if self._leg.is_over and self._attempt is None:
            self._lose()

    # ── Attempts ─────────────────────────────────────────────────────────────────────────────────

    async def _recover(self, attempt: Attempt, events: list[Event], failed: Failed) -> list[Event]:
        """Recover from a failure, if possible: end the leg with what has arrived, or retry.

        Return the events to deliver. They end with a failure if neither is possible.
        """
        machine, before = attempt.machine, events[:-1]
        if machine.calls:
            # The calls are complete. Their results will arrive with the whole history, so no retry is needed.
            self._close_attempt()
            return [*before, *machine.finish(StopReason.TOOL_USE)]
        if rescued := machine.rescue():
            self._close_attempt()
            return [*before, *rescued]
        remedy = self._remedy(failed, machine)
        if remedy is None:
            self._close_attempt()
            return events
        if failed.code not in _STATE_IS_GOOD:
            self._last_turn = None
        self._leg.notice_start(before)
        self._leg.notes.append(Note(kind="retry", message=remedy.why))
        try:
            await self._retry(remedy, attempt)
        except GatewayError as error:
            return [*before, error.failed()]
        return before

    def _remedy(self, failed: Failed, machine: CursorRun) -> Remedy | None:
        """Return how to retry after an attempt has failed, or None if it must not be retried."""
        recovery = self._leg.recovery
        if recovery is None:
            recovery = self._leg.recovery = self._service.recovery(self._transport)
        remedy = recovery.remedy(failed, has_checkpoint=machine.checkpoint_usable)
        self._transport = recovery.transport
        return remedy

    async def _retry(self, remedy: Remedy, broken: Attempt) -> None:
        """Carry out the steps of the remedy, then make the next attempt. `broken` is the attempt that failed."""
        self._close_attempt()
        if remedy.transport is not None:
            self._service.changed_to(remedy.transport)
        if remedy.wait:
            await self._service.sleep(remedy.wait)
        if remedy.renew:
            await self._service.account.renew(self._token)
        if remedy.rotate and self._conversation is not None:
            self._service.conversations.rename(self._conversation)
        await self._open(remedy, broken.machine)

    async def _open(self, remedy: Remedy, before: CursorRun | None) -> None:
        """Begin an attempt as `remedy` says. `before` is the state machine of the previous attempt, if there is one."""
        service = self._service
        self._token = await service.account.token()
        self._owner = owner_of(self._token, self._request.owner)
        conversation = self._conversation or self._begin_conversation()
        machine = self._machine(before, conversation, resumed=remedy.start is RestartFrom.CHECKPOINT)
        # The service accepts no further requests under the id of a run that is over.
        request_id = service.mint_id() if self._attempts else self._run_id
        ids = AttemptIds(request_id, self._run_id, conversation.blob_key)
        self._attempts += 1
        pipe = service.open_pipe(self._transport, self._token, ids)
        self._attempt = attempt = Attempt(
            service.name, machine, pipe, service.tasks, stall_after=service.stall_after, human=self._human
        )
        await attempt.begin()

    def _machine(self, before: CursorRun | None, conversation: CursorConversation, *, resumed: bool) -> CursorRun:
        """Return the state machine of the next attempt. If the leg has already started, the machine continues it.

        If `resumed` is true and `before`, the previous machine, has a checkpoint, the new machine continues from it.
        """
        service, opening = self._service, self._opening(conversation)
        blobs = self._last_turn.blobs if self._last_turn is not None else Blobs(opening.blobs)
        checkpoint = before.checkpoint if resumed and before is not None else None
        if before is not None and checkpoint:
            opening = opening._replace(message=resume_run(opening, checkpoint))
            blobs = before.blobs
        human = self._human
        machine = CursorRun(
            opening,
            mint=service.mint_call,
            blobs=blobs,
            clock=service.clock,
            queries=service.queries,
            # An absent person is not asked.
            can_ask=lambda _: human is not None and human.is_present,
        )
        if before is not None and checkpoint:
            machine.inherit_checkpoint(before)
        if before is not None and self._leg.has_started:
            machine.take_over(before, resumed=bool(checkpoint))
        else:
            machine.begin(service.mint_leg(), self._request.model)
        return machine

    def _opening(self, conversation: CursorConversation) -> Opening:
        service = self._service
        opening = open_run(
            self._request,
            settings=service.settings,
            machine_info=service.machine_info,
            conversation_id=conversation.id,
            run_id=self._run_id,
            message_id=service.mint_id(),
            checkpoint=self._last_turn.checkpoint if self._last_turn is not None else None,
            model=service.model(self._request.model),
            schemas=service.schemas,
        )
        if not self._leg.has_started:
            self._leg.notes += [note for note in opening.notes if note not in self._leg.notes]
        return opening

    def _lose(self) -> None:
        self._drop(LiveRunEvent.ATTEMPT_LOST)

    def _drop(self, event: LiveRunEvent) -> None:
        self._change(event)
        self._close_attempt()

    def _close_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.close()
            self._attempt = None

    # ── The conversation ─────────────────────────────────────────────────────────────────────────

    def _begin_conversation(self) -> CursorConversation:
        """Open the request's conversation. If the request adds only user messages, load the state of the last turn."""
        conversations, request = self._service.conversations, self._request
        found = self._conversation = conversations.open(request.messages, self._owner)
        state = conversations.take_state(found, request.model)
        self._last_turn = state if state is not None and continues(request) else None
        return found

    def _close_conversation(self, conversation: CursorConversation, *, is_finished: bool) -> None:
        conversations = self._service.conversations
        if not is_finished:
            conversations.close(conversation)
            return
        reply = Message(role="assistant", parts=(*self._shown, *self._leg.reply))
        messages = (*self._client_messages, reply)
        conversations.close(conversation, messages, self._owner, self._state_for_next_turn())

    def _state_for_next_turn(self) -> ConversationState | None:
        """Return the state from which the next turn can continue; None if there is none, or if an attempt failed."""
        machine = self._attempt.machine if self._attempt is not None else None
        checkpoint = machine.continuation if machine is not None and not self._has_retried else None
        if machine is None or checkpoint is None or self._service.settings.history != "blobs":
            return None
        return ConversationState(self._request.model, checkpoint, machine.blobs)

    def _with_results(self, results: Sequence[ToolResult], words: str) -> Request:
        """Return the request that the client would have sent if it had run the tools itself."""
        reply = Message(role="assistant", parts=tuple(self._leg.reply))
        parts: tuple[Part, ...] = (*results, Text(text=words)) if words else tuple(results)
        messages = (*self._request.messages, reply, Message(role="user", parts=parts))
        return replace(self._request, messages=messages)


def _offer_the_same(request: Request, other: Request) -> bool:
    """Return whether two requests offer the same tools and have the same tool choice."""
    return request.tools == other.tools and request.tool_choice == other.tool_choice


class _LiveLeg:
    """The events of one leg. The run owns all resources, so a leg has nothing to close."""

    def __init__(self, run: LiveRun, progress: LegProgress) -> None:
        self._run = run
        self._progress = progress

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._progress.is_over:
            raise StopAsyncIteration
        if self._progress.phase is LegPhase.NEW:
            self._progress.change(LegEvent.OPENED)
            await self._run.begin()
        events = await self._run.next_events()
        if not events:
            self._progress.change(LegEvent.FAILED)
            raise StopAsyncIteration
        return events

    async def aclose(self) -> None:
        """Do nothing: the run is closed by its owner."""
