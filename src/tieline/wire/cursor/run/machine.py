"""The client's side of a live run, without I/O.

The machine takes bytes from the service, and returns events of legs and messages to send. The states of a run and the
transitions between them are in `states`; read its theory of operation first. The most important rules of the protocol:

- Every request from the service is answered, whether a leg is open or not: requests for blobs or the request context,
  queries, and execs of any kind. Until it receives the answer, the service sends only heartbeats.
- An exec that the client has to run becomes a call in the leg. The leg then ends at the next checkpoint, or after a
  moment of quiet (`wake_after`, `wake`), so that calls made together stay together. Later calls wait for the next leg.
- `turn_ended` does not end the stream: text, usage and even calls may follow it. The end frame ends the stream. A
  stream that breaks off after `turn_ended`, or stays open without content, counts as successful, too. Any earlier end
  is a failure.

`outbox` returns the messages to send. The machine has no timers: the caller calls `wake` after a period without data.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from google.protobuf.message import DecodeError

from tieline.model.assemble import reason_for
from tieline.model.content import ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, Started, StopReason, Usage
from tieline.model.inbox import Answer, InboxItem
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_pb2 as exec_pb
from tieline.wire.cursor._pb import kv_pb2 as kv
from tieline.wire.cursor._pb import queries_pb2 as queries_pb
from tieline.wire.cursor._pb import updates_pb2 as updates_pb
from tieline.wire.cursor._pb.context_pb2 import RequestContext
from tieline.wire.cursor._pb.conversation_pb2 import ConversationStateStructure
from tieline.wire.cursor.compressed import CompressedBytes
from tieline.wire.cursor.errors import Pairs, incomplete, read_end, read_strays, read_trailers, trailer_lines
from tieline.wire.cursor.execs.dispatch import ExecDispatcher, PendingCalls
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.run_request import Opening
from tieline.wire.cursor.run import client_messages
from tieline.wire.cursor.run.answer_text import StoredAnswers
from tieline.wire.cursor.run.pending_queries import PendingQueries
from tieline.wire.cursor.run.query_replies import QueryReply, QuerySettings
from tieline.wire.cursor.run.states import (
    ENDED,
    IN_LEG,
    RUN_TRANSITIONS,
    TURN_TRANSITIONS,
    RunEvent,
    RunState,
    ServiceTurnEvent,
    ServiceTurnState,
)
from tieline.wire.cursor.run.updates import UpdateReader
from tieline.wire.cursor.stored_state import Blobs, LastCheckpoint, blob_reply, stored_reply
from tieline.wire.framing.connect import END, TRAILERS, Frame, FrameReader, FramingError

MAX_UNREAD = 16 * 1024 * 1024
"""The maximum total size in bytes of the updates that wait for the next leg. If they are larger, the run fails."""
MAX_UNFRAMED = 4096
"""The maximum number of bytes that are collected from a response without frames. After that, the run fails."""
NO_ERROR = b"{}"
"""The payload of an end frame that reports success."""
IDLE_HEARTBEATS = 2
"""After `turn_ended`, this number of consecutive heartbeats counts as the end of the stream."""

_DEFAULT_QUERIES = QuerySettings()
_parse = agent.AgentServerMessage.FromString


class CursorRun:
    """The state machine of one run.

    `mint` returns a new id each time. A batch of calls counts as complete after `batch_wait` seconds without data from
    the service; a run whose turn has ended, after `end_wait` seconds. `clock` returns the time in seconds, to measure
    how long calls take. `can_ask` returns whether there is a person who can answer an inbox item.
    """

    def __init__(
        self,
        opening: Opening,
        *,
        mint: Callable[[], str],
        blobs: Blobs,
        batch_wait: float = 0.05,
        end_wait: float = 1.0,
        clock: Callable[[], float] = lambda: 0.0,
        queries: QuerySettings = _DEFAULT_QUERIES,
        can_ask: Callable[[InboxItem], bool] = lambda _: False,
    ) -> None:
        self.blobs = blobs
        self.progress = 0
        """The number of messages received, not counting heartbeats."""
        self._state = RunState.NO_LEG
        self._turn = ServiceTurnState.OPEN
        self._ending: Finished | Failed | None = None
        """The ending of the run, if the run ended while no leg was open; otherwise None."""
        self._checkpoint = LastCheckpoint()
        self._tools: OfferedTools | None = None
        """The tools set by `set_tools`; None while those of the first request apply."""
        self._specs = opening.offer.specs
        """The tools of the newest leg, by name."""
        self._run_id = opening.run_id
        self._context = CompressedBytes(opening.context.SerializeToString())
        self._mint = mint
        self._batch_wait = batch_wait
        self._end_wait = end_wait
        self._queries = PendingQueries(queries, mint=mint, can_ask=can_ask)
        self._reader = FrameReader()
        self._stored = StoredAnswers(blobs)
        self._updates = UpdateReader(self._stored)
        self._execs = ExecDispatcher(opening.offer, mint=mint, workspace=opening.workspace, clock=clock)
        self._calls = PendingCalls(self._execs)
        self._out: list[Event] = []
        self._outbox = [opening.message]
        self._unread = 0
        """The number of bytes of updates that wait for the next leg."""
        self._heartbeats = 0
        """The number of heartbeats received since the last other message."""
        self._unframed = b""
        """The bytes received, if the response does not consist of frames."""

    # ── State ────────────────────────────────────────────────────────────────────────────────────

    def _change(self, event: RunEvent) -> None:
        """Change the state of the run. Only this method changes it."""
        self._state = RUN_TRANSITIONS[self._state][event]

    def _change_turn(self, event: ServiceTurnEvent) -> None:
        """Change the state of the turn. Only this method changes it."""
        self._turn = TURN_TRANSITIONS[self._turn][event]

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def ended(self) -> bool:
        """Whether the run is over. Further messages from the service are ignored."""
        return self._state in ENDED

    @property
    def turn_ended(self) -> bool:
        """Whether the service has sent `turn_ended`, and no call or question was answered that reopened the turn."""
        return self._turn is not ServiceTurnState.OPEN

    @property
    def _in_leg(self) -> bool:
        return self._state in IN_LEG

    @property
    def _has_open_calls(self) -> bool:
        """Whether a call, caused by an exec or a query, waits for its result."""
        return bool(self._execs.pending or self._queries.called)

    @property
    def _turn_is_complete(self) -> bool:
        return self._turn is ServiceTurnState.ENDED and not self._has_open_calls

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, leg_id: str, model: str) -> None:
        """Begin a leg with Started, and end it at once if the run is over. Raise IllegalTransition if a leg is open."""
        was_over = self.ended
        self._change(RunEvent.LEG_BEGINS)
        self._unread = 0
        self._out.append(Started(id=leg_id, model=model))
        self._calls.begin_leg()
        if was_over:
            self._close(self._ending or incomplete("the run was over before this leg began"))
        elif self._state is RunState.CALLS_MADE:
            self._end_leg(StopReason.TOOL_USE)
        else:
            self._show_plan()

    def take_over(self, before: "CursorRun", *, resumed: bool) -> None:
        """Continue the leg of the failed run `before`, without a second Started and without repeating its text.

        `resumed` says whether this run began with the last checkpoint of `before`. If not, it began with the complete
        history.
        """
        self._change(RunEvent.LEG_BEGINS)
        self._updates.take_over(before._updates, resumed=resumed)

    def inherit_checkpoint(self, before: "CursorRun") -> None:
        """Adopt the last checkpoint of `before`, an earlier attempt, so that the next attempt can begin with it."""
        self._checkpoint.inherit(before._checkpoint)

    def pull(self) -> list[Event]:
        """Return the events of the open leg, or of the leg that has just ended, that were not returned before."""
        if self._in_leg:
            self._out += self._updates.parts.take()
        out, self._out = self._out, []
        return out

    @property
    def wake_after(self) -> float | None:
        """The number of seconds without data after which the caller must call `wake`; None if that is not needed."""
        if self._state is RunState.CALLS_MADE:
            return self._batch_wait
        if self._state is RunState.UNFRAMED or (self._state is RunState.LEG_OPEN and self._turn_is_complete):
            return self._end_wait
        return None

    def wake(self) -> list[Event]:
        """Report that nothing arrived for `wake_after` seconds. Return the last events of the leg, if that ends it."""
        if self._state is RunState.CALLS_MADE:
            self._end_leg(StopReason.TOOL_USE)
        elif self._state is RunState.UNFRAMED:
            self._close(read_strays(self._unframed))
        elif self._state is RunState.LEG_OPEN and self._turn_is_complete:
            # Seen in transcripts/cursor/held_open.dialogue
            self._close(Finished(reason=StopReason.END_TURN))
        return self.pull()

    def finish(self, reason: StopReason) -> list[Event]:
        """End the run and its leg without an error.

        The caller does this instead of reporting a failure or waiting longer. The leg ends with the stop reason
        `reason`. Return its last events. Raise IllegalTransition if no leg is open and none has just failed.
        """
        self._end_leg(reason, RunEvent.GIVEN_UP)
        return self.pull()

    def rescue(self) -> list[Event]:
        """End the leg with an answer that was stored but not streamed, if there is one. Return its last events."""
        return self.finish(StopReason.END_TURN) if self._restore() else []

    def _restore(self) -> bool:
        """Add the part of the stored answer that was not streamed; return whether there was any."""
        self._updates.flush()
        found = self._stored.unseen(self._updates.open_text)
        if found is None:
            return False
        self._updates.restore(found)
        self._updates.note("rescued", "the service did not stream the whole answer, so it was taken from a stored copy")
        return True

    # ── Properties ───────────────────────────────────────────────────────────────────────────────

    @property
    def pending(self) -> frozenset[str]:
        """The ids of the calls that the client has seen but not answered; empty after the end of the run."""
        return frozenset() if self.ended else self._calls.unanswered

    @property
    def calls(self) -> int:
        """The number of calls made in this leg."""
        return self._updates.parts.calls

    @property
    def inbox_items(self) -> Mapping[int, InboxItem]:
        """The inbox items that wait for a person, by query id."""
        return self._queries.inbox_items

    @property
    def awaits_reply(self) -> bool:
        """Whether a plan was shown to the user. The user's next message will approve or reject it."""
        return self._queries.shown_plan is not None and not self.ended

    @property
    def checkpoint(self) -> bytes | None:
        """The last checkpoint that the service sent, even if it is not usable; None if it sent none."""
        return self._checkpoint.data

    @property
    def checkpoint_usable(self) -> bool:
        """Whether a new attempt may begin with the last checkpoint."""
        return self._checkpoint.is_usable

    @property
    def continuation(self) -> bytes | None:
        """The checkpoint with which the next turn can begin; None if no checkpoint contains the complete turn."""
        is_whole = self._turn is ServiceTurnState.ENDED and self._updates.kept == len(self._updates.step_text)
        return self._checkpoint.data if is_whole and self._checkpoint.is_usable else None

    @property
    def usage(self) -> Usage:
        """The known token usage of this leg. It may be incomplete until the turn ends."""
        return self._updates.usage.usage()

    # ── Sending ──────────────────────────────────────────────────────────────────────────────────

    def outbox(self) -> list[bytes]:
        """Return the serialized messages to send now, in order. Each message is returned only once."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def heartbeat(self) -> None:
        """Add a heartbeat to the outbox. Call this every five seconds."""
        self._outbox.append(client_messages.HEARTBEAT)

    def exec_heartbeat(self) -> None:
        """Add a heartbeat for every pending call to the outbox. Call this every three seconds."""
        self._send(self._execs.heartbeats())

    def set_tools(self, offer: OfferedTools) -> None:
        """Replace the client's tools. Later calls are mapped to the new tools, and the request context lists them."""
        self._tools = offer
        self._specs = offer.specs
        self._execs.set_tools(offer)

    def answer(self, results: Sequence[ToolResult], user_text: str = "") -> None:
        """Send the results of calls, together with `user_text`, the text that the user sent with them.

        `user_text` is added to the last result to which text can be added, or sent separately if there is no such
        result. Results of calls that were already aborted or answered are ignored.
        """
        sent = self._calls.answer(results, user_text)
        self._send(sent.messages)
        replies = self._queries.answered(results)
        for reply in replies:
            self._reply(reply)
        if sent.messages or replies:
            self._checkpoint.call_answered()
            self._change_turn(ServiceTurnEvent.ANSWERED)
        if user_text and not sent.took_text:  # Seen in transcripts/cursor/words_with_a_file.dialogue
            ids = {"run_id": self._run_id, "injection_id": self._mint(), "message_id": self._mint()}
            self._send((client_messages.injection(user_text, **ids),))
        self._stored.next_step()
        self._updates.kept = 0

    def reply_to_plan(self, text: str) -> None:
        """Send the user's decision on the plan that was shown. `text` is the user's message."""
        self._stored.next_step()
        self._reply(self._queries.reply_to_plan(text))
        self._checkpoint.call_answered()
        self._change_turn(ServiceTurnEvent.ANSWERED)

    def answer_query(self, query_id: int, answer: Answer | None) -> list[Event]:
        """Send a person's answer to a query, or a refusal if it contains no decision. Return new events of the leg."""
        reply, undecided = self._queries.decided(query_id, answer)
        if not self.ended:
            if undecided:
                self._updates.note("cursor_query", f"no decision was made on Cursor's query: {undecided}")
            self._reply(reply)
            self._change_turn(ServiceTurnEvent.ANSWERED)
        return self.pull()

    def _send(self, messages: Iterable[client_messages.Message]) -> None:
        self._outbox += [message.SerializeToString() for message in messages]

    def _reply(self, reply: QueryReply | None) -> None:
        if reply is None:
            return
        self._outbox.append(reply.message)
        if reply.shown:  # Seen in test_a_plan_that_is_held_is_shown_once_it_is_approved
            self._updates.show(reply.shown)
        if reply.note:
            self._updates.note(reply.kind, reply.note)

    # ── Receiving ────────────────────────────────────────────────────────────────────────────────

    def receive(self, data: bytes) -> list[Event]:
        """Process the next bytes of the response, which may end within a frame. Return the new events of the leg."""
        if self.ended:
            return []
        if self._state is RunState.UNFRAMED:
            self._receive_unframed(data)
            return self.pull()
        try:
            self._read(self._reader.feed(data))
        except FramingError as error:
            self._read(error.frames)
            if not self.ended:
                self._receive_unframed(error.rest)
        return self.pull()

    def receive_eof(self, trailers: Pairs = ()) -> list[Event]:
        """Report the end of the response, and return the last events of the leg."""
        if self._state is RunState.UNFRAMED:
            self._close(read_strays(self._unframed))
        if not self.ended:
            failed = read_trailers(trailers, has_begun=self._updates.has_begun)
            self._end(failed, "the stream broke off")
        return self.pull()

    def receive_failure(self, failed: Failed) -> list[Event]:
        """Report that the transport failed, and return the last events of the leg.

        After `turn_ended`, a failure counts as the end of the stream (see
        test_once_the_turn_is_over_a_stream_may_end_in_any_way).
        """
        if self.turn_ended:
            return self.receive_eof()
        if not self.ended:
            self._close(failed)
        return self.pull()

    def _receive_unframed(self, data: bytes) -> None:
        """Process bytes that are not frames. At the start of a response, collect them as an error page; later, fail."""
        if self.progress or not self._in_leg:  # Seen in transcripts/cursor/garbage_mid_run.dialogue
            self._close(read_strays(b""))
            return
        if self._state is RunState.LEG_OPEN:  # Seen in transcripts/cursor/error_page.dialogue
            self._change(RunEvent.UNFRAMED)
        self._unframed += data
        if len(self._unframed) >= MAX_UNFRAMED:
            self._close(read_strays(self._unframed[:MAX_UNFRAMED]))

    def _read(self, frames: Sequence[Frame]) -> None:
        at = 0
        while at < len(frames) and not self.ended:
            taken = self._updates.receive_plain(frames, at) if self._in_leg else 0
            if taken:
                self._count_progress(taken)
            else:
                self._receive_frame(*frames[at])
            at += taken or 1

    def _count_progress(self, messages: int = 1) -> None:
        self.progress += messages
        self._heartbeats = 0

    def _receive_frame(self, flags: int, payload: bytes) -> None:
        if not flags:
            self._receive_message(payload)
        elif flags & END:
            self._receive_end(payload)
        elif flags & TRAILERS:
            failed = read_trailers(trailer_lines(payload), has_begun=self._updates.has_begun)
            self._end(failed, "it ended with trailers only")

    def _receive_message(self, payload: bytes) -> None:
        try:
            message = _parse(payload)
        except DecodeError:
            # Losing a message is better than failing the run: most messages are for display only.
            # Seen in transcripts/cursor/display_records.dialogue
            self._updates.note("left_out", "a message of the service cannot be read")
            return
        kind = message.WhichOneof("message")
        if kind == "interaction_update":
            self._receive_update(message.interaction_update, len(payload))
            return
        self._count_progress()
        match kind:
            case "kv_server_message":
                self._receive_kv(message.kv_server_message)
            case "exec_server_message":
                self._receive_exec(message.exec_server_message)
            case "exec_server_control_message":
                self._receive_control(message.exec_server_control_message)
            case "conversation_checkpoint_update":
                self._receive_checkpoint(message.conversation_checkpoint_update)
            case "interaction_query":
                self._receive_query(message.interaction_query)
            case _:
                pass  # timings, and unknown kinds

    def _receive_update(self, update: updates_pb.InteractionUpdate, size: int) -> None:
        kind = self._updates.receive(update)
        if kind == "heartbeat":
            self._receive_heartbeat()
            return
        self._count_progress()
        if kind == "turn_ended":
            self._change_turn(ServiceTurnEvent.TURN_ENDED)
        if not self._in_leg:
            self._unread += size
            if self._unread > MAX_UNREAD:
                self._close(incomplete("too much arrived while no request was waiting for it"))

    def _receive_heartbeat(self) -> None:
        self._heartbeats += 1
        if self._heartbeats >= IDLE_HEARTBEATS and self._turn_is_complete:
            # Seen in transcripts/cursor/held_open_with_heartbeats.dialogue
            self._close(Finished(reason=StopReason.END_TURN))

    def _receive_exec(self, message: exec_pb.ExecServerMessage) -> None:
        if message.HasField("request_context_args"):
            self._send_context(message.id)
            return
        self._change_turn(ServiceTurnEvent.ASKED)
        made = self._execs.receive(message)
        if not isinstance(made, ToolCall):
            self._send(made)
            return
        self._call(made)

    def _call(self, made: ToolCall) -> None:
        """Add a call to the open leg or, if none is open, to the next leg."""
        self._calls.add(made.id, in_leg=self._in_leg)
        self._change(RunEvent.CALL)
        self._checkpoint.call_made()
        self._updates.call(made)

    def _send_context(self, exec_id: int) -> None:
        """Send the request context, with the tools of the newest leg. Its other fields never change during a run."""
        context = RequestContext.FromString(self._context.read())
        if self._tools is not None:
            del context.tools[:]
            context.tools.extend(self._tools.definitions)
        self._send(client_messages.context(exec_id, context))

    def _receive_control(self, message: exec_pb.ExecServerControlMessage) -> None:
        """Abort a call at the service's request. The client may still run it, but its result is then ignored."""
        # Seen in transcripts/cursor/abort.dialogue
        if message.HasField("abort"):
            self._send(self._calls.abort(message.abort.id))

    def _receive_kv(self, message: kv.KvServerMessage) -> None:
        if message.HasField("get_blob_args"):
            data = self.blobs.get(message.get_blob_args.blob_id)
            self._send((blob_reply(message.id, data),))
        elif message.HasField("set_blob_args"):
            blob = message.set_blob_args
            self._stored.keep(blob.blob_id, blob.blob_data)
            problem = self.blobs.set(blob.blob_id, blob.blob_data)
            if problem is not None:
                self._updates.note("left_out", problem)
            self._send((stored_reply(message.id, problem),))

    def _receive_query(self, query: queries_pb.InteractionQuery) -> None:
        outcome = self._queries.receive(query, tuple(self._specs.values()))
        if isinstance(outcome, ToolCall):
            self._change_turn(ServiceTurnEvent.ASKED)
            self._call(outcome)
        elif outcome is not None:
            self._reply(outcome)
        elif self.inbox_items or self._queries.due_plan is not None:
            self._change_turn(ServiceTurnEvent.ASKED)
            self._show_plan()

    def _show_plan(self) -> None:
        """If a plan is due and a leg without calls is open, show the plan and end the leg. Otherwise, keep the plan."""
        if self._queries.due_plan is not None and self._state is RunState.LEG_OPEN:
            plan, question = self._queries.show_plan()
            self._checkpoint.call_made()
            # The plan is not repeated if the model has already written it: transcripts/cursor/plan.dialogue.
            self._updates.show(plan)
            self._updates.show(question, again=True)
            self._end_leg(StopReason.END_TURN)

    def _receive_checkpoint(self, state: ConversationStateStructure) -> None:
        self._checkpoint.update(state, has_open_calls=self._has_open_calls or self.awaits_reply)
        self._updates.kept = len(self._updates.step_text)
        usage = self._updates.usage
        usage.context = state.token_details.used_tokens or usage.context
        if self._state is RunState.CALLS_MADE:  # Seen in transcripts/cursor/late_parallel_call.dialogue
            self._end_leg(StopReason.TOOL_USE)

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _receive_end(self, payload: bytes) -> None:
        if not payload and self.turn_ended:  # Seen in transcripts/cursor/end_frame_empty_after_turn.dialogue
            self._updates.note("inferred_ending", "the end frame is empty")
            failed = None
        else:
            failed = None if payload == NO_ERROR else read_end(payload, has_begun=self._updates.has_begun)
        self._end(failed, "the end frame came too early")

    def _end(self, failed: Failed | None, how: str) -> None:
        """End the run because the stream ended. The run succeeds only if the turn has ended and no call is open.

        `failed` is the error that the service reported; None if it reported none. `how` describes how the stream ended,
        for use in an error message.
        """
        if failed is not None and self._turn_is_complete:
            # Seen in transcripts/cursor/error_after_turn_ended.dialogue
            self._updates.note("inferred_ending", f"the service failed after the turn was over: {failed.message}")
            failed = None
        if failed is None and not self.turn_ended:  # Seen in transcripts/cursor/end_without_turn_ended.dialogue
            failed = incomplete(how)
        elif failed is None and self._has_open_calls:  # Seen in transcripts/cursor/end_with_a_call_open.dialogue
            failed = incomplete("a call was still open")
        self._close(failed or Finished(reason=StopReason.END_TURN))

    def _close(self, ending: Finished | Failed) -> None:
        """End the run with this ending. If no leg is open, the next leg will report the ending."""
        has_failed = isinstance(ending, Failed)
        if not self._in_leg:
            self._ending = ending
            self._change(RunEvent.RUN_FAILS if has_failed else RunEvent.RUN_FINISHES)
        elif isinstance(ending, Finished):
            self._restore()
            self._updates.finish()
            self._end_leg(ending.reason, RunEvent.RUN_FINISHES)
        else:
            self._updates.flush()
            self._out += self._updates.parts.take()
            self._out.append(ending)
            self._change(RunEvent.RUN_FAILS)

    def _end_leg(self, reason: StopReason, event: RunEvent = RunEvent.LEG_ENDS) -> None:
        self._change(event)
        updates = self._updates
        updates.pause()
        usage = updates.usage.usage()
        self._out += updates.parts.take()
        if usage != Usage():
            self._out.append(usage)
        self._out.append(Finished(reason=reason_for(updates.parts.calls, reason)))
        updates.begin()
        if self._calls.unanswered:
            self._pack()

    def _pack(self) -> None:
        """Compress data that is rarely needed while the client runs its tools, which may take a long time."""
        self.blobs.pack()
        self._context.pack()
