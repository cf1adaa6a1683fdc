"""A live run as the core sees it: legs, answers, and the attempts behind them.

Behind one leg there may be several attempts: when the stream breaks, the token has expired or the service stalls, a
new attempt takes over where the old one was, and what the client has seen is neither lost nor said again. Between legs
the attempt lives on by itself; if it dies there, the next leg begins with a fresh one made from the whole history.

A run that ends a turn with a plan for the user to approve waits for the next message of the conversation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

from msgspec.structs import replace

from tieline.backends.cursor.attempt import Attempt
from tieline.backends.cursor.auth import Account
from tieline.backends.cursor.conversations import Conversation, Conversations, State
from tieline.backends.cursor.pipes import Ids, Pipe, Transport
from tieline.backends.cursor.recovery import BROKEN, SILENT, Kind, Recovery, Remedy
from tieline.backends.cursor.tokens import owner_of
from tieline.model.content import Message, Part, Text, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartEnd, Started, StopReason
from tieline.model.ports import Host, Leg
from tieline.model.request import Request
from tieline.tasks import Tasks
from tieline.wire.cursor.blobs import Blobs
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.run_request import (
    Opening,
    Settings,
    Surroundings,
    continues,
    last_words,
    open_run,
    resume_run,
)
from tieline.wire.cursor.opening.tools import Offer
from tieline.wire.cursor.run.machine import CursorRun
from tieline.wire.cursor.run.queries import Queries

LOST = "the run was over when the results came: replayed the history"


@dataclass(frozen=True, slots=True)
class Service:
    """What runs need to know of the service and of this machine."""

    name: str
    account: Account
    open_pipe: Callable[[Transport, str, Ids], Pipe]
    transport: Callable[[], Transport]
    changed_to: Callable[[Transport], None]
    """Called with the transport that has to be used instead: the next run need not find it out again."""
    mint_call: Callable[[], str]
    mint_id: Callable[[], str]
    mint_leg: Callable[[], str]
    conversations: Conversations
    clock: Callable[[], float]
    tasks: Tasks
    settings: Settings
    surroundings: Surroundings
    queries: Queries
    model: Callable[[str], CursorModel | None]
    """What is known of a model by its name."""
    is_fixed: bool = False
    """Whether the user has set the transport: then it is never changed."""
    stall_after: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def recovery(self, transport: Transport) -> Recovery:
        """Return the retries of a new leg."""
        return Recovery(transport, is_fixed=self.is_fixed, clock=self.clock)


class LiveRun:
    """One conversation under way; may outlive the leg that opened it. What Cursor asks goes to the host's human."""

    def __init__(self, service: Service, request: Request, host: Host | None = None) -> None:
        self._service = service
        self._request = request
        self._human = host.human if host is not None else None
        self._conversation: Conversation | None = None
        self._state: State | None = None
        """What the last turn of the conversation left, if this one continues from it."""
        self._client_messages = request.messages
        """The history as the client has it, without what was said since."""
        self._shown: list[Part] = []
        """What the client was shown since then, in legs that the gateway's own tools continued."""
        self._run_id = service.mint_id()
        self._attempt: Attempt | None = None
        self._token = ""
        self._has_tried = False
        self._is_disturbed = False
        """Whether an attempt failed: the service and the client may know different words then."""
        self._leg = _LegState(service.recovery(service.transport()))

    @property
    def pending(self) -> frozenset[str]:
        attempt = self._attempt
        return frozenset() if attempt is None or attempt.is_broken else attempt.machine.pending

    @property
    def model(self) -> str:
        """The model of the newest request."""
        return self._request.model

    def leg(self) -> Leg:
        self._leg = _LegState(self._service.recovery(self._leg.recovery.transport))
        return _Leg(self)

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        """Hand results to the attempt that waits for them; if it is gone, the next leg replays the history."""
        if request is None:
            self._shown += [part for part in self._leg.reply if type(part) is Text]
        else:
            self._shown, self._client_messages = [], request.messages
        self._request = request or self._with_results(results, words)
        attempt = self._attempt
        if attempt is None or attempt.is_broken:
            self._drop()
            return
        if request is not None:
            attempt.machine.offered(Offer.of_request(request))
        attempt.machine.answer(results, words)
        attempt.push()

    def hear(self, request: Request, host: Host | None) -> bool:
        """Give the run the message it waits for; whether it could still take it."""
        attempt, conversation = self._attempt, self._conversation
        words = last_words(request)
        if attempt is None or attempt.is_broken or conversation is None or not words:
            self._drop()
            return False
        conversation.is_live = True
        self._request, self._client_messages, self._shown = request, request.messages, []
        self._human = attempt.human = host.human if host is not None else None
        attempt.machine.offered(Offer.of_request(request))
        attempt.machine.hear(words)
        attempt.push()
        return True

    def give_up(self) -> None:
        """The message that the run waits for did not come."""
        self._drop()

    async def aclose(self) -> None:
        conversation, attempt = self._conversation, self._attempt
        if conversation is None:
            self._drop()
            return
        waits = self._leg.is_finished and attempt is not None and not attempt.is_broken and attempt.machine.waits
        conversations, owner = self._service.conversations, owner_of(self._token)
        if self._leg.is_finished:
            reply = Message(role="assistant", parts=(*self._shown, *self._leg.reply))
            conversations.close(conversation, (*self._client_messages, reply), owner, self._left_state())
        else:
            conversations.close(conversation)
        if waits:
            conversations.wait(conversation, self)
        else:
            self._drop()

    def _left_state(self) -> State | None:
        """What the next turn can continue from: only what one undisturbed attempt left that ended the turn."""
        machine = self._attempt.machine if self._attempt is not None else None
        checkpoint = machine.continuation if machine is not None and not self._is_disturbed else None
        if machine is None or checkpoint is None or self._service.settings.history != "blobs":
            return None
        return State(self._request.model, checkpoint, machine.blobs)

    async def begin(self) -> None:
        """A leg begins: with the attempt that lives, or with a new one."""
        attempt = self._attempt
        if attempt is None:
            if self._has_tried:
                self._leg.notes.append(Note(kind="retry", message=LOST))
            await self._open(Remedy(), None)
            return
        attempt.machine.begin(self._service.mint_leg(), self._request.model)
        attempt.give(attempt.machine.pull())
        attempt.push()
        attempt.watch()

    async def next_events(self) -> list[Event]:
        """The next events of the leg; none once it is over."""
        while (attempt := self._attempt) is not None:
            events = await attempt.events()
            if not events:
                return []
            last = events[-1]
            if type(last) is Failed:
                self._is_disturbed = True
                events = await self._recovered(attempt, events, last)
            elif type(last) is Finished:
                attempt.unwatch()
            if events and type(events[-1]) is Finished:
                self._leg.is_finished = True
            if events and (events := self._leg.told(events)):
                return events
        return []

    async def _recovered(self, attempt: Attempt, events: list[Event], failed: Failed) -> list[Event]:
        """The events before a failure, and the failure itself unless something can be done about it."""
        machine, before = attempt.machine, events[:-1]
        if machine.calls:
            # The calls are made: their results will come with the whole history, and that is all it takes to go on.
            self._drop()
            return [*before, *machine.finish(StopReason.TOOL_USE)]
        if rescued := machine.rescue():
            self._drop()
            return [*before, *rescued]
        remedy = self._leg.recovery.remedy(failed, has_checkpoint=machine.checkpoint_usable)
        if remedy is None:
            self._drop()
            return events
        if failed.code not in _NOT_OF_THE_STATE:
            self._state = None
        self._leg.see(before)
        self._leg.notes.append(Note(kind="retry", message=remedy.why))
        try:
            await self._again(remedy, attempt)
        except GatewayError as error:
            return [*before, error.failed()]
        return before

    async def _again(self, remedy: Remedy, broken: Attempt) -> None:
        """The next attempt, after what has to come first."""
        self._drop()
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
        """Begin an attempt, from the history or from the checkpoint of the one before."""
        service = self._service
        self._token = await service.account.token()
        conversation = self._conversation or self._begin_conversation()
        machine = self._machine(before, conversation, resumed=remedy.kind is Kind.RESUME)
        # The service takes nothing more for an id whose run is over.
        request_id = service.mint_id() if self._has_tried else self._run_id
        ids = Ids(request_id, self._run_id, conversation.blob_key)
        self._has_tried = True
        pipe = service.open_pipe(self._leg.recovery.transport, self._token, ids)
        self._attempt = attempt = Attempt(
            service.name, machine, pipe, service.tasks, stall_after=service.stall_after, human=self._human
        )
        await attempt.begin()

    def _begin_conversation(self) -> Conversation:
        """Find the conversation of the request, and what its last turn left if this one just continues it."""
        conversations, request = self._service.conversations, self._request
        found = self._conversation = conversations.open(request.messages, owner_of(self._token))
        state = conversations.take_state(found, request.model)
        self._state = state if state is not None and continues(request) else None
        return found

    def _machine(self, before: CursorRun | None, conversation: Conversation, *, resumed: bool) -> CursorRun:
        """What speaks in the next attempt; it goes on in the leg that the one before has begun."""
        service, opening = self._service, self._opened(conversation)
        blobs = self._state.blobs if self._state is not None else Blobs(opening.blobs)
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
            # Nobody is waited for where nobody looks.
            hold=lambda _: human is not None and human.is_present,
        )
        if before is not None and checkpoint:
            machine.resumes(before)
        if before is not None and self._leg.has_started:
            machine.take_over(before, resumed=bool(checkpoint))
        else:
            machine.begin(service.mint_leg(), self._request.model)
        return machine

    def _opened(self, conversation: Conversation) -> Opening:
        service = self._service
        opening = open_run(
            self._request,
            settings=service.settings,
            surroundings=service.surroundings,
            conversation_id=conversation.id,
            run_id=self._run_id,
            message_id=service.mint_id(),
            checkpoint=self._state.checkpoint if self._state is not None else None,
            model=service.model(self._request.model),
        )
        if not self._leg.has_started:
            self._leg.notes += [note for note in opening.notes if note not in self._leg.notes]
        return opening

    def _with_results(self, results: Sequence[ToolResult], words: str) -> Request:
        """The request as it would be if the client had sent the results."""
        said = Message(role="assistant", parts=tuple(self._leg.reply))
        parts: tuple[Part, ...] = (*results, Text(text=words)) if words else tuple(results)
        messages = (*self._request.messages, said, Message(role="user", parts=parts))
        return replace(self._request, messages=messages)

    def _drop(self) -> None:
        if self._attempt is not None:
            self._attempt.close()
            self._attempt = None


class _LegState:
    """What has to be known of the leg under way."""

    def __init__(self, recovery: Recovery) -> None:
        self.recovery = recovery
        self.reply: list[Part] = []
        self.notes: list[Note] = []
        self.has_started = False
        self.is_finished = False
        """Whether the client has got its end."""
        self._held: list[Event] | None = []
        """What came before the first part: until then a failure can still be all that the client hears of."""

    def see(self, events: Sequence[Event]) -> None:
        """Look whether the leg has begun."""
        if events and type(events[0]) is Started:
            self.has_started = True

    def told(self, events: list[Event]) -> list[Event]:
        """The events that go out now, with the notes where notes may stand."""
        self.reply += [event.part for event in events if type(event) is PartEnd]
        self.see(events)
        if self.notes and self.has_started:
            place = 1 if type(events[0]) is Started else 0
            events[place:place] = self.notes
            self.notes = []
        if self._held is None:
            return events
        self._held += events
        if all(type(event) in _AHEAD for event in events):
            return []
        events, self._held = self._held, None
        return events


_NOT_OF_THE_STATE = (BROKEN, SILENT, "cursor_incomplete", "cursor_unauthenticated")
"""Failures that say nothing against the state a turn continues from; after any other it is told from the history."""
_AHEAD = (Started, Note)
"""What may come long before the service has decided whether it answers at all."""


class _Leg:
    """The events of one leg, and nothing after its ending."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._has_begun = False
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._is_over:
            raise StopAsyncIteration
        if not self._has_begun:
            self._has_begun = True
            await self._run.begin()
        events = await self._run.next_events()
        if not events:
            self._is_over = True
            raise StopAsyncIteration
        self._is_over = type(events[-1]) in (Finished, Failed)
        return events

    async def aclose(self) -> None:
        """The run is closed by whoever has it; a leg holds nothing."""
