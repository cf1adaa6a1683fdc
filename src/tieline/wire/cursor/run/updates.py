"""Convert the service's updates, which contain the visible content of a turn, to the parts and usage of a leg.

At most one part of text or thinking is open at a time; it ends when content of another kind begins. Updates that only
describe tools, nested agents or summaries require no action; the few that matter to the user become notes. The text of
a nested agent is not added to the text of its parent, and the end of a nested agent does not end its parent.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tieline.model.assemble import PartsWriter
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Note, Usage
from tieline.wire.cursor._pb import tool_calls_pb2 as tool_calls
from tieline.wire.cursor._pb import updates_pb2 as updates
from tieline.wire.cursor.run.answer_text import RepeatFilter, StoredAnswers, StoredText, TagSplitter
from tieline.wire.shared.http_errors import excerpt

MAX_NOTES = 100
"""The maximum number of notes in a leg. Further notes are dropped."""
_OPEN_PART = "open"
"""The key of the part that is being written."""
_TEXT_HEADS = [b""] * 6 + [bytes((0x0A, size - 2, 0x0A, size - 4, 0x0A, size - 6)) for size in range(6, 130)]
"""The first bytes of a message that contains only a short text delta. The index is the size of the message."""
_TOKENS_HEAD = b"\x0a\x04\x42\x02\x08"
"""The first bytes of a message that contains only a token count below 128."""
_Update = updates.InteractionUpdate

_COME_AS_EXECS = frozenset(
    f"{name}_tool_call"
    for name in (
        *("shell", "delete", "glob", "grep", "read", "edit", "ls", "read_lints", "mcp", "fetch", "write_shell_stdin"),
        *("list_mcp_resources", "read_mcp_resource", "record_screen", "computer_use", "truncated"),
        *("pi_read", "pi_bash", "pi_edit", "pi_write", "pi_grep", "pi_find", "pi_ls"),
    )
)
"""Tools whose calls also arrive as execs. Therefore, no note is needed when such a call starts."""


class UsageCounter:
    """Counts the tokens of each leg of a run.

    The service reports the usage of all steps of a turn together, at the end of the turn. Before that, only the
    streamed counts of output tokens and the context size in the last checkpoint are known. The prompts of all steps
    together may be many times the context size. Clients compact a conversation if its last prompt is too large, so no
    leg reports a prompt that is larger than the context.
    """

    def __init__(self) -> None:
        self.context = 0
        """The size of the context in tokens, according to the last checkpoint."""
        self._counted = 0
        """The number of output tokens of this leg, according to the streamed counts."""
        self._reported_before = 0
        """The number of output tokens that were reported to the client for earlier legs."""
        self._billed: Usage | None = None
        """The sum of the usages that the service has reported at the ends of turns; None if it has reported none."""

    @property
    def has_counted(self) -> bool:
        """Whether any output tokens were counted in this run, including earlier legs."""
        return self._counted + self._reported_before > 0

    def count(self, tokens: int) -> None:
        """Add a streamed count of output tokens."""
        self._counted += max(tokens, 0)

    def bill(self, ended: updates.TurnEndedUpdate) -> None:
        """Add the usage that the service reports at the end of a turn. A run may have several turns."""
        before = self._billed or Usage()
        read, write = max(ended.cache_read_tokens, 0), max(ended.cache_write_tokens, 0)
        if ended.HasField("input_tokens") or ended.HasField("output_tokens"):
            self._billed = Usage(
                input=before.input + max(ended.input_tokens - read - write, 0),
                output=before.output + max(ended.output_tokens, 0),
                cache_read=before.cache_read + read,
                cache_write=before.cache_write + write,
                reasoning=before.reasoning + max(ended.reasoning_tokens, 0),
            )

    def usage(self) -> Usage:
        """Return the known usage of this leg. It may be incomplete until the turn ends."""
        billed = self._billed
        if billed is None:
            return Usage(input=max(self.context - self._counted, 0), output=self._counted)
        output = max(billed.output - self._reported_before, 0) or self._counted
        usage = replace(billed, output=output, reasoning=min(billed.reasoning, output))
        prompt = max(self.context - output, 0)
        if not prompt or usage.prompt <= prompt:
            return usage
        # Seen in transcripts/cursor/usage_beyond_reason.dialogue
        read = min(billed.cache_read, prompt)
        write = min(billed.cache_write, prompt - read)
        return replace(usage, input=prompt - read - write, cache_read=read, cache_write=write)

    def next_leg(self) -> None:
        """Begin the next leg. Output tokens that were reported for earlier legs are not reported again."""
        self._reported_before += self.usage().output
        self._counted = 0


class UpdateReader:
    """Converts the updates of a run to parts, notes and usage, for one leg after another."""

    def __init__(self, stored: StoredAnswers) -> None:
        self.parts = PartsWriter()
        self.usage = UsageCounter()
        self.has_spoken = False
        """Whether this leg has any parts."""
        self.kept = 0
        """The number of characters of this step's text that the last checkpoint contains."""
        self._has_spoken_before = False
        self._stored = stored
        self._repeats = RepeatFilter("")
        self._tags = TagSplitter()
        self._open: type[Text] | type[Thinking] | None = None
        self._is_plain = False
        """Whether text can be added to the open part without further checks."""
        self._thinks = False
        """Whether the open part is thinking that the service sent as `thinking_delta` instead of text in tags."""
        self._notes_left = MAX_NOTES
        self._notices: list[str] = []
        self._shown: set[str] = set()

    def begin(self) -> None:
        """Begin the next leg."""
        self.parts = PartsWriter()
        self.usage.next_leg()
        self._has_spoken_before |= self.has_spoken
        self.has_spoken = False
        self._notes_left = MAX_NOTES
        self._notices = []
        self._shown = set()

    def take_over(self, before: "UpdateReader", *, resumed: bool) -> None:
        """Continue the leg of the failed run whose reader is `before`, without repeating the text that it streamed.

        `resumed` says whether the new run began with the checkpoint of the failed run. If not, it began with the
        complete history.
        """
        self.kept = before.kept if resumed else 0
        self.parts = before.parts
        self.has_spoken = before.has_spoken
        self._open = before._open
        self._notes_left = before._notes_left
        self._stored.take_over(before._stored)
        self._repeats = RepeatFilter(before.step_text[self.kept :])

    def receive_plain(self, frames: Sequence[tuple[int, bytes]], at: int = 0) -> int:
        """Read short text deltas and token counts from frames, and return the number of frames read.

        Reading starts at the index `at` and stops at the first frame with other content. Nearly all frames of a stream
        contain such deltas or counts. Parsing them by hand gives the same result as `receive`, but takes only a third
        of the time.
        """
        texts: list[str] = []
        taken = tokens = 0
        try:
            for place in range(at, len(frames)):
                flags, payload = frames[place]
                size = len(payload)
                if size < 130 and self._is_plain and payload[:6] == _TEXT_HEADS[size] and size > 6 and not flags:
                    texts.append(payload[6:].decode())
                elif size == 6 and payload[:5] == _TOKENS_HEAD and payload[5] < 0x80 and not flags:
                    tokens += payload[5]
                else:
                    break
                taken += 1
        except UnicodeDecodeError:
            pass  # the protobuf parser will reject this frame
        if texts:
            self.parts.add_all(_OPEN_PART, texts)
        if tokens:
            self.usage.count(tokens)
        return taken

    def receive(self, update: _Update) -> str | None:
        """Read one update; return its kind, or None if the kind is unknown."""
        kind: str | None = update.WhichOneof("message")
        if kind == "text_delta":
            delta = update.text_delta
            if delta.is_server_notice:
                self._notice(delta.text)
            elif self._is_plain:
                self.parts.add(_OPEN_PART, delta.text)
            else:
                self.say(delta.text)
        elif kind == "token_delta":
            self.usage.count(update.token_delta.tokens)
        elif kind is not None and (read := _READ.get(kind)):
            read(self, update)
        return kind

    def say(self, text: str) -> None:
        """Add text that the model streamed. It may begin with thinking in tags."""
        if self._thinks:
            self.pause()
        for is_thinking, piece in self._tags.feed(text):
            self._add_piece(is_thinking, piece)
        self._is_plain = self._open is Text and self._tags.is_plain and self._repeats.is_over

    def show(self, text: str, *, again: bool = False) -> None:
        """Add text that was not streamed, as a separate part.

        Text that the model has already written is omitted, unless `again` is true.
        """
        self.pause()
        if text.strip() and (again or not self._stored.has_streamed(text)):
            self._add(Text, f"\n\n{text}" if self._stored.step else text)
            self.pause()

    def restore(self, found: StoredText) -> None:
        """Add the part of a stored answer that was never streamed."""
        if found.thinking:
            self.pause()
            self._add(Thinking, found.thinking)
        self._add(Text, found.text)

    @property
    def has_begun(self) -> bool:
        """Whether the model has produced any output in this run."""
        return self.has_spoken or self._has_spoken_before or self.usage.has_counted

    @property
    def step_text(self) -> str:
        """The text that was streamed in this step, including the open part."""
        return self._stored.step + self.open_text

    @property
    def open_text(self) -> str:
        """The text of the open part; empty if it is not a text part."""
        return self.parts.text_of(_OPEN_PART) if self._open is Text else ""

    def call(self, call: ToolCall) -> None:
        """Add a call for the client to run."""
        self.pause()
        self._repeats = RepeatFilter("")  # text after a call is never a repetition
        self.has_spoken = True
        self.parts.complete(call)
        self._stored.next_step()

    def pause(self) -> None:
        """End the open part. The next text begins a new part."""
        self.flush()
        self._tags = TagSplitter()
        self._end_part()

    def flush(self) -> None:
        """Add the text that was held back because it may be the beginning of a tag."""
        for is_thinking, piece in self._tags.close():
            self._add_piece(is_thinking, piece)

    def finish(self) -> None:
        """End the turn. If the leg has no parts, the notices that the service sent become its text."""
        self.pause()
        if not self.has_spoken and self._notices:  # Seen in transcripts/cursor/notices_only.dialogue
            self.show("".join(self._notices))

    def note(self, kind: str, message: str) -> None:
        """Add a note for the user."""
        if self._notes_left > 0:
            self._notes_left -= 1
            self.parts.events.append(Note(kind=kind, message=excerpt(message)))

    def _add_piece(self, is_thinking: bool, piece: str) -> None:
        if is_thinking:
            self._add(Thinking, piece)
        elif self._repeats.is_over:
            self._add(Text, piece)
        elif new := self._repeats.feed(piece):
            if self._repeats.has_diverged:
                self._diverge(new)
            else:
                self._add(Text, new)

    def _diverge(self, text: str) -> None:
        """Add text of a new attempt that differs from the text that was streamed before the stream broke off.

        The client already has the earlier text, so both texts remain. A further attempt is compared with the new text.
        """
        if self._stored.step or self._open is Text:
            self._end_part()
            self._stored.next_step()
            self.kept = 0
            self.note("said_otherwise", "the stream broke off, and the model then wrote another text: both are shown")
            text = f"\n\n{text}"
        self._add(Text, text)

    def _add(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if self._open is not kind:
            self._end_part()
            self._open = kind
            self.has_spoken = True
            self.parts.start(_OPEN_PART, kind())
        self.parts.add(_OPEN_PART, text)

    def _end_part(self) -> None:
        if self._open is Text:
            self._stored.record(self.parts.text_of(_OPEN_PART))
        if self._open is not None:
            self.parts.end(_OPEN_PART)
        self._open = None
        self._is_plain = self._thinks = False

    # ── One function for each kind of update ─────────────────────────────────────────────────────

    def _think(self, update: _Update) -> None:
        text = update.thinking_delta.text
        if not self._thinks:
            if not text.strip():
                return  # the service begins with a blank delta, as in transcripts/cursor/thinking.dialogue
            self.pause()
        self._add(Thinking, text)
        self._thinks = True

    def _thinking_completed(self, _update: _Update) -> None:
        if self._thinks:
            self.pause()

    def _turn_ended(self, update: _Update) -> None:
        self.usage.bill(update.turn_ended)

    def _notice(self, text: str) -> None:
        if text.strip():
            self._notices.append(text)
            self.note("server_notice", text)

    def _tool_started(self, update: _Update) -> None:
        started = update.tool_call_started
        kind = started.tool_call.WhichOneof("tool")
        if kind is None or kind in _COME_AS_EXECS or started.call_id in self._shown or len(self._shown) > MAX_NOTES:
            return
        self._shown.add(started.call_id)
        self.note("cursor_tool", _describe_tool(kind, started.tool_call))

    def _summary(self, update: _Update) -> None:
        self.note("summary", f"Cursor summarized the conversation: {update.summary.summary}")

    def _summary_completed(self, update: _Update) -> None:
        if update.summary_completed.failed:
            self.note("summary", "Cursor failed to summarize the conversation")

    def _routed(self, update: _Update) -> None:
        self.note("routed_model", f"answered by {update.routed_model.display_name}")

    def _prompt(self, update: _Update) -> None:
        prompt = update.post_request_prompt
        self.note("server_notice", " ".join(filter(None, (prompt.title, prompt.message, prompt.button_url))))

    def _injected(self, update: _Update) -> None:
        state = update.context_injection_state.state
        if state.HasField("rejected"):
            self.note("left_out", f"Cursor rejected the text that the user added: {state.rejected.reason}")


_READ: dict[str, Callable[[UpdateReader, _Update], None]] = {
    "thinking_delta": UpdateReader._think,
    "thinking_completed": UpdateReader._thinking_completed,
    "turn_ended": UpdateReader._turn_ended,
    "tool_call_started": UpdateReader._tool_started,
    "summary": UpdateReader._summary,
    "summary_completed": UpdateReader._summary_completed,
    "routed_model": UpdateReader._routed,
    "post_request_prompt": UpdateReader._prompt,
    "context_injection_state": UpdateReader._injected,
}
"""The functions that read updates, by kind. `receive` itself reads text and token deltas, and ignores other kinds."""


def _describe_tool(kind: str, call: tool_calls.ToolCall) -> str:
    name = kind.removesuffix("_tool_call").replace("_", " ")
    match kind:
        case "web_search_tool_call":
            detail = call.web_search_tool_call.args.search_term
        case "web_fetch_tool_call":
            detail = call.web_fetch_tool_call.args.url
        case "task_tool_call":
            detail = call.task_tool_call.args.description
        case _:
            detail = ""
    return f"Cursor runs {name}: {detail}" if detail else f"Cursor runs {name}"
