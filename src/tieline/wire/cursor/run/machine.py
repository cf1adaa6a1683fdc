"""The client's side of a live run: bytes of the service in, events of legs and messages to send out.

The rules of the protocol, in the order in which breaking them hurts:

- Every question is answered, always, whether a leg is open or not: blobs, the request context, queries, execs of any
  kind. The service sends nothing but heartbeats until it has its answer.
- An exec that is a call for the client becomes a part of the leg, and the leg ends: with the next checkpoint, or after
  a moment of quiet (`wake_after`, `wake`), so that calls made together stay together. What comes after that, late
  calls included, waits for the next leg.
- `turn_ended` is not the end: text, usage and even calls may follow it. The end is the end frame; a stream that breaks
  off after `turn_ended`, or is held open for long, has ended well too. Any end before that is a failure.

`outbox` gives what is to be sent; time passes only when the caller says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from google.protobuf.message import DecodeError
from msgspec.structs import replace

from tieline.model.assemble import reason_for
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, Started, StopReason, Usage
from tieline.model.inbox import Answer, InboxItem
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_pb2 as exec_pb
from tieline.wire.cursor._pb import kv_pb2 as kv
from tieline.wire.cursor._pb import queries_pb2 as queries_pb
from tieline.wire.cursor._pb import updates_pb2 as updates_pb
from tieline.wire.cursor._pb.context_pb2 import RequestContext
from tieline.wire.cursor._pb.conversation_pb2 import ConversationStateStructure
from tieline.wire.cursor.blobs import Blobs
from tieline.wire.cursor.errors import Pairs, incomplete, read_end, read_strays, read_trailers, trailer_lines
from tieline.wire.cursor.execs.execs import Execs
from tieline.wire.cursor.opening.run_request import Opening
from tieline.wire.cursor.opening.tools import Offer
from tieline.wire.cursor.packed import Packed
from tieline.wire.cursor.run import replies
from tieline.wire.cursor.run.pending_queries import PendingQueries
from tieline.wire.cursor.run.queries import Queries, Reply
from tieline.wire.cursor.run.stored_answer import Stored
from tieline.wire.cursor.run.updates import Updates
from tieline.wire.framing.connect import END, TRAILERS, Frame, FrameReader, FramingError

MOST_HELD = 16 * 1024 * 1024
"""So many bytes of updates may wait for the next leg: more than that no service says to nobody."""
MOST_STRAYS = 4096
HOLDS_OPEN = 2
"""A service that sends so many heartbeats after the turn, and nothing else, has nothing more to say."""

_DEFAULT = Queries()
_TAKES_WORDS = frozenset(("mcp_args", "shell_args", "shell_stream_args"))
"""Execs whose result is text for the model: in others, words of the user would end up in a file or a listing."""

_parse = agent.AgentServerMessage.FromString


class CursorRun:
    """One run.

    `mint` gives a new id each time, `clock` tells seconds for how long calls took, `hold` says of something that a
    person can be asked whether one will be.
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
        queries: Queries = _DEFAULT,
        hold: Callable[[InboxItem], bool] = lambda _: False,
    ) -> None:
        self.blobs = blobs
        self.ended = False
        """Whether the run is over; what comes then is ignored."""
        self.checkpoint: bytes | None = None
        """The state of the conversation that came last."""
        self.checkpoint_usable = False
        """Whether it holds everything that the client has answered, so that a new attempt may begin with it."""
        self.progressed = 0
        """How many messages came that are more than a sign of life."""
        self._tools: Offer | None = None
        """The tools of the newest leg, if it is not the first."""
        self._specs = opening.offer.specs
        """The same by their names, those of the first leg too."""
        self._run_id = opening.run_id
        self._context = Packed(opening.context.SerializeToString())
        self._mint = mint
        self._batch_wait = batch_wait
        self._end_wait = end_wait
        self._queries = PendingQueries(queries, mint=mint, hold=hold)
        self._reader = FrameReader()
        self._stored = Stored(blobs)
        self._updates = Updates(self._stored)
        self._execs = Execs(opening.offer, mint=mint, workspace=_workspace(opening), clock=clock)
        self._kinds: dict[str, str] = {}
        """The kinds of the execs that are calls for the client, by call id."""
        self._unanswered: set[str] = set()
        """The calls the client has seen and not answered."""
        self._late: set[str] = set()
        """The calls that came between two legs."""
        self._out: list[Event] = []
        self._outbox = [opening.message]
        self._in_leg = False
        self._held = 0
        self._has_calls = False
        """Whether a call was made since the last ending of a leg."""
        self._has_answered = False
        """Whether the client has answered a call that the last checkpoint may not know of."""
        self._is_over = False
        """Whether the turn has ended and nothing was asked for since."""
        self._heartbeats = 0
        self._strays: bytes | None = None
        """What came instead of frames."""
        self._ending: Finished | Failed | None = None
        """How the run ended, until a leg has given it."""

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, leg_id: str, model: str) -> None:
        """A leg begins: Started comes first in what is returned next."""
        self._in_leg = True
        self._held = 0
        self._out.append(Started(id=leg_id, model=model))
        self._unanswered |= self._late
        self._late.clear()
        if self.ended:
            self._close(self._ending or incomplete("the run was over before this leg began"))
        elif self._has_calls:
            self._end_leg(StopReason.TOOL_USE)
        else:
            self._put_plan()

    def take_over(self, before: "CursorRun", *, resumed: bool) -> None:
        """Go on in the leg of a run that failed: no second Started, and what it has said is not said again.

        `resumed` tells that this run begins with the last checkpoint of that one, not with the whole history.
        """
        self._in_leg = True
        self._updates.take_over(before._updates, resumed=resumed)

    def resumes(self, before: "CursorRun") -> None:
        """This run begins with the last checkpoint of another, and may have to go on from there once more."""
        self.checkpoint = before.checkpoint
        self.checkpoint_usable = before.checkpoint_usable

    def pull(self) -> list[Event]:
        """The events that wait to be taken: those of an open leg, and of one that has just ended."""
        if self._in_leg:
            self._out += self._updates.parts.take()
        out, self._out = self._out, []
        return out

    @property
    def wake_after(self) -> float | None:
        """How many seconds of quiet mean something now."""
        if not self._in_leg:
            return None
        if self._has_calls:
            return self._batch_wait
        is_over = self._is_over and not self._execs.pending
        return self._end_wait if is_over or self._strays is not None else None

    def wake(self) -> list[Event]:
        """It has been quiet for `wake_after` seconds: all calls are made, or the turn is over."""
        if self.wake_after is None:
            pass
        elif self._has_calls:
            self._end_leg(StopReason.TOOL_USE)
        elif self._strays is not None:
            self._close(read_strays(self._strays))
        else:
            self._close(Finished(reason=StopReason.END_TURN))
        return self.pull()

    def finish(self, reason: StopReason) -> list[Event]:
        """Give the run up, and end the leg well all the same: in place of a failure, or of waiting any longer."""
        self.ended = True
        self._end_leg(reason)
        return self.pull()

    def rescue(self) -> list[Event]:
        """The end of the leg out of what was stored and never streamed; nothing if there is no such text."""
        return self.finish(StopReason.END_TURN) if self._restore() else []

    def _restore(self) -> bool:
        """Say what the assistant said according to the blobs, beyond what was streamed; whether there was any."""
        self._updates.flush()
        found = self._stored.unseen(self._updates.open_text)
        if found is None:
            return False
        self._updates.restore(found)
        self._updates.note("rescued", "the answer was stored but never streamed: it was taken from there")
        return True

    # ── What the caller knows of the run ─────────────────────────────────────────────────────────

    @property
    def pending(self) -> frozenset[str]:
        """The calls the client has seen and the run waits for; none once it is over."""
        return frozenset() if self.ended else frozenset(self._unanswered)

    @property
    def calls(self) -> int:
        """How many calls this leg has made."""
        return self._updates.parts.calls

    @property
    def questions(self) -> Mapping[int, InboxItem]:
        """What is to be asked of a person, by the ids of the queries that are held for it."""
        return self._queries.asks

    @property
    def waits(self) -> bool:
        """Whether the user was shown a plan: the run waits for the next message."""
        return self._queries.plan_waits and not self.ended

    @property
    def continuation(self) -> bytes | None:
        """The checkpoint that the next turn can begin with: one that holds the whole of a turn that ended well."""
        is_whole = self.turn_ended and self._is_over and self._updates.kept == len(self._updates.said)
        return self.checkpoint if is_whole and self.checkpoint_usable else None

    @property
    def turn_ended(self) -> bool:
        """Whether the service said that the turn is over."""
        return self._updates.turn_ended

    @property
    def usage(self) -> Usage:
        """The tokens of this leg as far as they are known."""
        return self._updates.tally.usage()

    # ── What is sent ─────────────────────────────────────────────────────────────────────────────

    def outbox(self) -> list[bytes]:
        """The messages to send now, in order."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def heartbeat(self) -> None:
        """A sign of life; due every five seconds."""
        self._outbox.append(replies.HEARTBEAT)

    def exec_heartbeat(self) -> None:
        """A sign of life for every call that is pending; due every three seconds."""
        self._send(self._execs.heartbeats())

    def offered(self, offer: Offer) -> None:
        """The tools of the newest leg: calls are mapped to them, and the context tells of them when it is asked for."""
        self._tools = offer
        self._specs = offer.specs
        self._execs.offered(offer)

    def answer(self, results: Sequence[ToolResult], words: str = "") -> None:
        """Hand over results of calls; `words` of the user that came along go with the last that can take them.

        A result nobody waits for any more (the call was aborted, or answered before) is left out.
        """
        awaited = {result.call_id: result for result in results if result.call_id in self._execs.pending}
        takers = [call_id for call_id in awaited if self._kinds.get(call_id) in _TAKES_WORDS]
        if words and takers:
            awaited[takers[-1]] = _with_words(awaited[takers[-1]], words)
        for call_id, result in awaited.items():
            self._send(self._execs.answer(result))
            self._kinds.pop(call_id, None)
        self._has_answered |= bool(awaited)
        for reply in self._queries.answered(results):
            self._reply(reply)
        if words and not takers:  # seen: transcripts/cursor/words_with_a_file.dialogue
            ids = {"run_id": self._run_id, "injection_id": self._mint(), "message_id": self._mint()}
            self._send((replies.injection(words, **ids),))
        self._unanswered.difference_update(result.call_id for result in results)
        self._stored.next_step()
        self._updates.kept = 0

    def hear(self, words: str) -> None:
        """Take the user's message after a plan was shown as text."""
        self._stored.next_step()
        self._reply(self._queries.hear(words))

    def answer_query(self, query_id: int, answer: Answer | None) -> list[Event]:
        """Take what a person said to a query that was held; without a decision the answer is a no with the reason."""
        reply, nobody = self._queries.decided(query_id, answer)
        if not self.ended:
            if nobody:
                self._updates.note("cursor_query", f"nobody decided what Cursor asked: {nobody}")
            self._reply(reply)
        return self.pull()

    def _send(self, messages: Iterable[replies.Message]) -> None:
        self._outbox += [message.SerializeToString() for message in messages]

    # ── What is received ─────────────────────────────────────────────────────────────────────────

    def receive(self, data: bytes) -> list[Event]:
        """Bytes of the response, cut anyhow; the events of the leg that are whole now."""
        if self.ended:
            return []
        if self._strays is not None:
            self._gather_strays(data)
            return self.pull()
        try:
            self._read(self._reader.feed(data))
        except FramingError as error:
            self._read(error.frames)
            if not self.ended:
                self._gather_strays(error.rest)
        return self.pull()

    def receive_eof(self, trailers: Pairs = ()) -> list[Event]:
        """The response is over."""
        if self._strays is not None and not self.ended:
            self._close(read_strays(self._strays))
        if not self.ended:
            failed = read_trailers(trailers, has_begun=self._updates.has_begun)
            self._end(failed, "the stream broke off")
        return self.pull()

    def _gather_strays(self, data: bytes) -> None:
        """What comes is no frames. It may be a page that says why, so a little of it is read before giving up."""
        # Seen in transcripts/cursor/error_page.dialogue
        self._strays = (self._strays or b"") + data
        if self.progressed or len(self._strays) >= MOST_STRAYS:
            self._close(read_strays(b"" if self.progressed else self._strays[:MOST_STRAYS]))

    def _read(self, frames: Sequence[Frame]) -> None:
        at = 0
        while at < len(frames) and not self.ended:
            taken = self._updates.receive_plain(frames, at) if self._in_leg else 0
            if taken:
                self.progressed += taken
                self._heartbeats = 0
            else:
                self._receive_frame(*frames[at])
            at += taken or 1

    def _receive_frame(self, flags: int, payload: bytes) -> None:
        if not flags:
            self._receive(payload)
        elif flags & END:
            self._receive_end(payload)
        elif flags & TRAILERS:
            failed = read_trailers(trailer_lines(payload), has_begun=self._updates.has_begun)
            self._end(failed, "it ended with trailers only")

    def _receive(self, payload: bytes) -> None:
        try:
            message = _parse(payload)
        except DecodeError:
            # Better a gap than a dead run: most of what comes is for display only.
            # Seen in transcripts/cursor/display_records.dialogue
            self._updates.note("left_out", "a message of the service cannot be read")
            return
        kind = message.WhichOneof("message")
        if kind == "interaction_update":
            self._receive_update(message.interaction_update, len(payload))
            return
        self.progressed += 1
        self._heartbeats = 0
        match kind:
            case "kv_server_message":
                self._answer_kv(message.kv_server_message)
            case "exec_server_message":
                self._receive_exec(message.exec_server_message)
            case "exec_server_control_message":
                self._receive_control(message.exec_server_control_message)
            case "conversation_checkpoint_update":
                self._keep_checkpoint(message.conversation_checkpoint_update)
            case "interaction_query":
                self._answer_query(message.interaction_query)
            case _:
                pass  # timings, and whatever the service will think of next

    def _receive_update(self, update: updates_pb.InteractionUpdate, size: int) -> None:
        kind = self._updates.receive(update)
        if kind == "heartbeat":
            # Seen in transcripts/cursor/held_open_with_heartbeats.dialogue
            self._heartbeats += 1
            if self._is_over and self._heartbeats >= HOLDS_OPEN and not self._execs.pending:
                self._close(Finished(reason=StopReason.END_TURN))
            return
        self.progressed += 1
        self._heartbeats = 0
        if kind == "turn_ended":
            self._is_over = True
        if not self._in_leg:
            self._held += size
            if self._held > MOST_HELD:
                self._close(incomplete("too much was said to nobody"))

    def _receive_exec(self, message: exec_pb.ExecServerMessage) -> None:
        kind = message.WhichOneof("message")
        if kind == "request_context_args":
            self._tell_context(message.id)
            return
        self._is_over = False  # seen: transcripts/cursor/after_the_turn.dialogue
        made = self._execs.receive(message)
        if not isinstance(made, ToolCall):
            self._send(made)
            return
        self._kinds[made.id] = kind or ""
        self._call(made)

    def _call(self, made: ToolCall) -> None:
        """A call for the client; a checkpoint from before it would have the call made again."""
        self._is_over = False
        self.checkpoint_usable = False
        (self._unanswered if self._in_leg else self._late).add(made.id)
        self._has_calls = True
        self._updates.call(made)

    def _tell_context(self, exec_id: int) -> None:
        """The context with the tools of the newest leg; there is nothing in it that could be out of date."""
        context = RequestContext.FromString(self._context.read())
        if self._tools is not None:
            del context.tools[:]
            context.tools.extend(self._tools.definitions)
        self._send(replies.context(exec_id, context))

    def _receive_control(self, message: exec_pb.ExecServerControlMessage) -> None:
        """A call is no longer wanted. The client may run it all the same; its result will be left out."""
        if message.HasField("abort"):
            self._send(self._execs.last_words(message.abort.id))
            self._kinds.pop(self._execs.abort(message.abort.id) or "", None)

    def _answer_kv(self, message: kv.KvServerMessage) -> None:
        if message.HasField("get_blob_args"):
            data = self.blobs.get(message.get_blob_args.blob_id)
            self._send((replies.blob(message.id, data),))
        elif message.HasField("set_blob_args"):
            blob = message.set_blob_args
            self._stored.keep(blob.blob_id, blob.blob_data)
            problem = self.blobs.set(blob.blob_id, blob.blob_data)
            if problem is not None:
                self._updates.note("left_out", problem)
            self._send((replies.stored(message.id, problem),))

    def _answer_query(self, query: queries_pb.InteractionQuery) -> None:
        outcome = self._queries.receive(query, tuple(self._specs.values()))
        if isinstance(outcome, ToolCall):
            self._call(outcome)
        elif outcome is not None:
            self._reply(outcome)
        elif self.questions or self._queries.plan_is_due:
            self._is_over = False  # who asks has not ended
            self._put_plan()

    def _put_plan(self) -> None:
        """Show the plan that waits and end the leg; calls of the same leg come first."""
        if self._queries.plan_is_due and self._in_leg and not self._has_calls:
            plan, question = self._queries.show_plan()
            self._updates.show(plan)
            self._updates.show(question, again=True)
            self._end_leg(StopReason.END_TURN)

    def _reply(self, reply: Reply | None) -> None:
        if reply is None:
            return
        self._outbox.append(reply.message)
        if reply.shown:  # seen: transcripts/cursor/plan.dialogue
            self._updates.show(reply.shown)
        if reply.note:
            self._updates.note(reply.kind, reply.note)

    def _keep_checkpoint(self, state: ConversationStateStructure) -> None:
        self.checkpoint = state.SerializeToString()
        if not state.pending_tool_calls:
            self._has_answered = False
        self.checkpoint_usable = not (self._execs.pending or self._queries.has_calls or self._has_answered)
        self._updates.kept = len(self._updates.said)
        tally = self._updates.tally
        tally.context = state.token_details.used_tokens or tally.context
        if self._has_calls and self._in_leg:
            self._end_leg(StopReason.TOOL_USE)

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _receive_end(self, payload: bytes) -> None:
        if not payload and self.turn_ended:  # seen: transcripts/cursor/end_frame_empty_after_turn.dialogue
            self._updates.note("inferred_ending", "the end frame is empty")
            failed = None
        else:
            failed = read_end(payload, has_begun=self._updates.has_begun)
        self._end(failed, "it ended without a word")

    def _end(self, failed: Failed | None, how: str) -> None:
        """The stream is over: well only if the turn is, and nobody waits for a call."""
        if failed is not None and self._is_over and not self._execs.pending:
            # Seen in transcripts/cursor/error_after_turn_ended.dialogue
            self._updates.note("inferred_ending", f"the service failed after the turn was over: {failed.message}")
            failed = None
        if failed is None and not self.turn_ended:
            failed = incomplete(how)
        elif failed is None and self._execs.pending:  # seen: transcripts/cursor/end_with_a_call_open.dialogue
            failed = incomplete("a call was still open")
        self._close(failed or Finished(reason=StopReason.END_TURN))

    def _close(self, ending: Finished | Failed) -> None:
        """The run is over; without a leg to say so, the next one will."""
        self.ended = True
        if not self._in_leg:
            self._ending = ending
        elif isinstance(ending, Finished):
            self._restore()
            self._updates.finish()
            self._end_leg(ending.reason)
        else:
            self._updates.flush()
            self._out += self._updates.parts.take()
            self._out.append(ending)
            self._in_leg = False

    def _end_leg(self, reason: StopReason) -> None:
        updates = self._updates
        updates.pause()
        usage = updates.tally.usage()
        self._out += updates.parts.take()
        if usage != Usage():
            self._out.append(usage)
        self._out.append(Finished(reason=reason_for(updates.parts.calls, reason)))
        self._in_leg = False
        self._has_calls = False
        updates.begin()
        if self._unanswered:
            self._rest()

    def _rest(self) -> None:
        """The client runs its tools, which may take long: what is hardly needed meanwhile takes little room."""
        self.blobs.pack()
        self._context.pack()


def _workspace(opening: Opening) -> str:
    """The folder the service was told of."""
    return next(iter(opening.context.env.workspace_paths), "")


def _with_words(result: ToolResult, words: str) -> ToolResult:
    said = f"\n\nThe user also says:\n<user_message>\n{words}\n</user_message>"
    return replace(result, content=(*result.content, Text(text=said)))
