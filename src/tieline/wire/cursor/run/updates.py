"""The visible turn as it streams: updates of the service become the parts of a leg.

What is said (text, thinking) is one part at a time; a part ends where something else begins. Display records of tools,
nested agents, summaries and the like are not for the client to act upon: the few that a person looking on should know
of become notes. Text of a nested agent never becomes the parent's, nor does its ending end the parent.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tieline.model.assemble import PartsWriter
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Note
from tieline.wire.cursor._pb import tool_calls_pb2 as tool_calls
from tieline.wire.cursor._pb import updates_pb2 as updates
from tieline.wire.cursor.run.repeat_filter import RepeatFilter
from tieline.wire.cursor.run.stored_answer import StoredAnswers, StoredText
from tieline.wire.cursor.run.thinking_tags import TagSplitter
from tieline.wire.cursor.run.usage import UsageCounter
from tieline.wire.shared.http_errors import excerpt

MOST_NOTES = 100
"""In a leg; more than that nobody reads."""

_SAID = "said"
_TEXT_HEADS = [b""] * 6 + [bytes((0x0A, size - 2, 0x0A, size - 4, 0x0A, size - 6)) for size in range(6, 130)]
"""What a message of nothing but some text begins with, by its size: nearly all of them are that short."""
_TOKENS_HEAD = b"\x0a\x04\x42\x02\x08"
"""What a message of nothing but a count of tokens begins with, if that is less than 128."""
_Update = updates.InteractionUpdate

_COME_AS_EXECS = frozenset(
    f"{name}_tool_call"
    for name in (
        *("shell", "delete", "glob", "grep", "read", "edit", "ls", "read_lints", "mcp", "fetch", "write_shell_stdin"),
        *("list_mcp_resources", "read_mcp_resource", "record_screen", "computer_use", "truncated"),
        *("pi_read", "pi_bash", "pi_edit", "pi_write", "pi_grep", "pi_find", "pi_ls"),
    )
)
"""Tools whose display record is followed by a request to run them: those need no note."""


class UpdateReader:
    """Reads the updates of a run, one leg after the other."""

    def __init__(self, stored: StoredAnswers) -> None:
        self.parts = PartsWriter()
        self.tally = UsageCounter()
        self.has_spoken = False
        """Whether this leg has any part."""
        self.kept = 0
        """How much of the text of this step is part of the checkpoint."""
        self._has_spoken_before = False
        self._stored = stored
        self._echo = RepeatFilter("")
        self._tags = TagSplitter()
        self._open: type[Text] | type[Thinking] | None = None
        self._is_plain = False
        """Whether text can go straight into the open part."""
        self._thinks = False
        """Whether the open part is thinking that came as such."""
        self._notes_left = MOST_NOTES
        self._notices: list[str] = []
        self._shown: set[str] = set()

    def begin(self) -> None:
        """The leg is over: what comes from now on belongs to the next."""
        self.parts = PartsWriter()
        self.tally.next_leg()
        self._has_spoken_before |= self.has_spoken
        self.has_spoken = False
        self._notes_left = MOST_NOTES
        self._notices = []
        self._shown = set()

    def take_over(self, before: "UpdateReader", *, resumed: bool) -> None:
        """Go on in the leg of another run; `resumed` from its checkpoint, after what was said until then."""
        self.kept = before.kept if resumed else 0
        self.parts = before.parts
        self.has_spoken = before.has_spoken
        self._open = before._open
        self._notes_left = before._notes_left
        self._stored.take_over(before._stored)
        self._echo = RepeatFilter(before.said[self.kept :])

    def receive_plain(self, frames: Sequence[tuple[int, bytes]], at: int = 0) -> int:
        """Take the run of plain words and counts of tokens that begins at one of the frames; how many it is.

        Nearly all of a stream is that. It is read by hand: what is taken means exactly what `receive` would make of it,
        in a third of the time.
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
            pass  # `receive` says what it is
        if texts:
            self.parts.add_all(_SAID, texts)
        if tokens:
            self.tally.count(tokens)
        return taken

    def receive(self, update: _Update) -> str | None:
        """One update; gives its kind."""
        kind: str | None = update.WhichOneof("message")
        if kind == "text_delta":
            delta = update.text_delta
            if delta.is_server_notice:
                self._notice(delta.text)
            elif self._is_plain:
                self.parts.add(_SAID, delta.text)
            else:
                self.say(delta.text)
        elif kind == "token_delta":
            self.tally.count(update.token_delta.tokens)
        elif kind is not None and (read := _READ.get(kind)):
            read(self, update)
        return kind

    def say(self, text: str) -> None:
        """Words, perhaps with thinking between tags at their beginning."""
        if self._thinks:
            self.pause()
        for is_thinking, piece in self._tags.feed(text):
            self._give(is_thinking, piece)
        self._is_plain = self._open is Text and self._tags.is_plain and self._echo.is_over

    def show(self, text: str, *, again: bool = False) -> None:
        """Say text that came otherwise, as a paragraph and part of its own; `again` even if it has been said."""
        self.pause()
        if text.strip() and (again or not self._stored.has_said(text)):
            self._add(Text, f"\n\n{text}" if self._stored.step else text)
            self.pause()

    def restore(self, found: StoredText) -> None:
        """Text that was stored and never streamed, after what was said already."""
        if found.thinking:
            self.pause()
            self._add(Thinking, found.thinking)
        self._add(Text, found.text)

    @property
    def has_begun(self) -> bool:
        """Whether the model has done anything in this run."""
        return self.has_spoken or self._has_spoken_before or self.tally.has_counted

    @property
    def said(self) -> str:
        """The text of this step so far."""
        return self._stored.step + self.open_text

    @property
    def open_text(self) -> str:
        """The text that is being said."""
        return self.parts.text_of(_SAID) if self._open is Text else ""

    def call(self, call: ToolCall) -> None:
        """A call for the client to run."""
        self.pause()
        self._echo = RepeatFilter("")  # what is said after it was not said before
        self.has_spoken = True
        self.parts.whole(replace(call, arguments=""), call.arguments)
        self._stored.next_step()

    def pause(self) -> None:
        """What was being said is said; the next words begin anew."""
        self.flush()
        self._tags = TagSplitter()
        self._shut()

    def flush(self) -> None:
        """Give out what was held back."""
        for is_thinking, piece in self._tags.close():
            self._give(is_thinking, piece)

    def finish(self) -> None:
        """The turn is over. A turn of nothing but notices was meant to be read."""
        self.pause()
        if not self.has_spoken and self._notices:  # Seen in transcripts/cursor/notices_only.dialogue
            self.show("".join(self._notices))

    def note(self, kind: str, message: str) -> None:
        """Something for whoever looks on."""
        if self._notes_left > 0:
            self._notes_left -= 1
            self.parts.events.append(Note(kind=kind, message=excerpt(message)))

    def _give(self, is_thinking: bool, piece: str) -> None:
        if is_thinking:
            self._add(Thinking, piece)
        elif self._echo.is_over:
            self._add(Text, piece)
        elif new := self._echo.feed(piece):
            if self._echo.has_strayed:
                self._say_otherwise(new)
            else:
                self._add(Text, new)

    def _say_otherwise(self, text: str) -> None:
        """Something else than before the stream broke off. What the client has read cannot be taken back: both stand.

        From now on this is what was said: the next attempt, if there has to be one, may say this again.
        """
        if self._stored.step or self._open is Text:
            self._shut()
            self._stored.next_step()
            self.kept = 0
            self.note("said_otherwise", "the stream broke off, and the model then said something else: both are there")
            text = f"\n\n{text}"
        self._add(Text, text)

    def _add(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if self._open is not kind:
            self._shut()
            self._open = kind
            self.has_spoken = True
            self.parts.start(_SAID, kind())
        self.parts.add(_SAID, text)

    def _shut(self) -> None:
        if self._open is Text:
            self._stored.said(self.parts.text_of(_SAID))
        if self._open is not None:
            self.parts.end(_SAID)
        self._open = None
        self._is_plain = self._thinks = False

    # ── One function for each kind of update ─────────────────────────────────────────────────────

    def _think(self, update: _Update) -> None:
        text = update.thinking_delta.text
        if not self._thinks:
            if not text.strip():
                return  # a sign of life ahead of all else; seen: transcripts/cursor/thinking.dialogue
            self.pause()
        self._add(Thinking, text)
        self._thinks = True

    def _thought(self, _update: _Update) -> None:
        if self._thinks:
            self.pause()

    def _turn_ended(self, update: _Update) -> None:
        self.tally.bill(update.turn_ended)

    def _notice(self, text: str) -> None:
        if text.strip():
            self._notices.append(text)
            self.note("server_notice", text)

    def _tool_started(self, update: _Update) -> None:
        started = update.tool_call_started
        kind = started.tool_call.WhichOneof("tool")
        if kind is None or kind in _COME_AS_EXECS or started.call_id in self._shown or len(self._shown) > MOST_NOTES:
            return
        self._shown.add(started.call_id)
        self.note("cursor_tool", _in_words(kind, started.tool_call))

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
            self.note("left_out", f"Cursor did not take what the user said in between: {state.rejected.reason}")


_READ: dict[str, Callable[[UpdateReader, _Update], None]] = {
    "thinking_delta": UpdateReader._think,
    "thinking_completed": UpdateReader._thought,
    "turn_ended": UpdateReader._turn_ended,
    "tool_call_started": UpdateReader._tool_started,
    "summary": UpdateReader._summary,
    "summary_completed": UpdateReader._summary_completed,
    "routed_model": UpdateReader._routed,
    "post_request_prompt": UpdateReader._prompt,
    "context_injection_state": UpdateReader._injected,
}
"""What is not here (partial calls, nested agents, steps, output of shells …) is of no use to a client."""


def _in_words(kind: str, call: tool_calls.ToolCall) -> str:
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
