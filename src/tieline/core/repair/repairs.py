"""Repair malformed tool calls on the way to the client.

Repairs are disabled unless they are configured for an upstream, except `parallel`, which is always safe. Each repair
emits a Note directly before the part it changed.

    parallel    extract the calls inside a wrapper call (`multi_tool_use.parallel`)
    text_calls  find calls that the model wrote as text, and convert them to real calls (text_calls.py)
    coerce      convert a string to the array, object, number or boolean that the schema requires
    keys        strip white space around argument names
    json        repair malformed but complete JSON (json_repair.py), unless the answer was truncated
    unknown     add a note about a call to a tool that was not offered; the call itself is not changed
    repeat      if a call was made three times in a row with the same arguments and result, replace the next one
                with a text that explains this to the model and the user (repeats.py)

Correct events pass unchanged. A call that may need a repair is held until it is complete; a call with malformed JSON
is held until the ending shows whether the answer was truncated.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from tieline.core.repair.call_repair import CallRepair, Repaired
from tieline.core.repair.text_calls import TextCall, TextCallScanner
from tieline.model.assemble import reason_for
from tieline.model.content import Message, Text, ToolCall
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartDelta, PartEnd, PartStart, Started, of_kind
from tieline.model.events import StopReason as Why
from tieline.model.request import ToolSpec

RepairName = Literal["parallel", "text_calls", "coerce", "keys", "json", "unknown", "repeat"]

DEFAULT: frozenset[RepairName] = frozenset({"parallel"})

_COMPLETE = (Why.END_TURN, Why.TOOL_USE)
"""Stop reasons of a complete answer."""


class Repairs:
    """Applies the enabled repairs to the events of one leg. `history` is the normalised history of the request."""

    def __init__(
        self, tools: Sequence[ToolSpec], enabled: frozenset[RepairName], history: Sequence[Message] = ()
    ) -> None:
        self._tools = tools
        self._enabled = enabled
        self._history = history
        scanner = TextCallScanner(self._calls.schemas) if "text_calls" in enabled else None
        self._out = _RepairedEvents()
        self._text = None if scanner is None else _TextPartRepair(scanner, self._out, self._emit_call)
        self._held: list[Event] = []
        """The events of a call that is being held until it is complete."""
        self._waiting: list[Event] | None = None
        """A call with malformed JSON and all later events, held until the ending; None if there is no such call."""
        self._is_truncated: bool | None = None
        """Whether the answer was truncated; None until the ending is known."""
        self._id = ""
        self._recovered = 0
        self._reads_all = scanner is not None or ("repeat" in enabled and bool(self._calls.repeated))
        """Whether an enabled repair has to process every event, even in batches without calls."""
        self._is_idle = not self._reads_all

    @cached_property
    def _calls(self) -> CallRepair:
        """The object that repairs calls. It is created when needed, because most legs have no calls."""
        return CallRepair(self._tools, self._enabled, self._history)

    def apply(self, batch: Batch) -> Batch:
        """Return the repaired events. If no event in the batch can need a repair, return the same object."""
        if self._is_idle:
            for start in of_kind(batch, PartStart):
                if type(start.part) is ToolCall and self._calls.needs_whole(start.part):
                    break
            else:
                return batch
        for event in batch:
            self._take(event)
        self._is_idle = not (self._reads_all or self._is_busy())
        return self._out.take()

    def _is_busy(self) -> bool:
        return bool(self._held or self._waiting is not None or self._out.shift or self._out.changed)

    def _take(self, event: Event) -> None:
        if self._waiting is not None:
            self._waiting.append(event)
            if isinstance(event, Finished | Failed):
                self._replay_waiting(event)
        elif self._text is not None and self._text.takes(event):
            pass
        elif self._held:
            self._hold(event)
        elif isinstance(event, PartStart) and isinstance(event.part, ToolCall) and self._calls.needs_whole(event.part):
            self._out.begin(event.index)
            self._held.append(event)
        else:
            self._pass(event)

    def _pass(self, event: Event) -> None:
        match event:
            case PartStart() | PartDelta() | PartEnd():
                self._out.begin(event.index)
                self._out.emit(event)
            case Started():
                self._id = event.id
                self._out.emit(event)
            case Finished():
                self._out.finish(event)
            case _:
                self._out.emit(event)

    def _hold(self, event: Event) -> None:
        """Add an event to the call that is being held. If the leg fails, emit the call unchanged."""
        if isinstance(event, Failed):
            self._out.emit_all(self._held)
            self._held = []
            self._out.emit(event)
            return
        self._held.append(event)
        if isinstance(event, PartEnd) and isinstance(event.part, ToolCall):
            self._call_complete(event.part, event.index)

    def _call_complete(self, call: ToolCall, index: int) -> None:
        held, self._held = self._held, []
        if self._is_truncated is None and self._calls.has_malformed_json(call):
            self._waiting = held
            return
        repaired = self._calls.repaired(call, truncated=bool(self._is_truncated))
        if repaired is None or (len(repaired) == 1 and repaired[0].part is call):
            self._out.emit_all(repaired[0].notes if repaired else ())
            self._out.emit_all(held)
        else:
            self._out.emit_all(event for event in held if not isinstance(event, PartStart | PartDelta | PartEnd))
            self._out.write(repaired)
        self._out.end(index)

    def _replay_waiting(self, ending: Finished | Failed) -> None:
        """Process the events that were held until the ending."""
        self._is_truncated = not (isinstance(ending, Finished) and ending.reason in _COMPLETE)
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self._take(event)

    def _emit_call(self, found: TextCall) -> None:
        """Emit a call that was found in text."""
        self._recovered += 1
        call = ToolCall(id=f"{self._id or 'call'}_t{self._recovered}", name=found.name, arguments=found.arguments)
        note = Note(kind="repair", message=f"a call to {found.name} was recovered from text")
        repaired = self._calls.repaired(call, truncated=False) or [Repaired((), call)]
        self._out.emit(note)
        self._out.write(repaired)


class _RepairedEvents:
    """Collects the outgoing events, and keeps part indices consecutive when parts are added or removed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.shift = 0
        """The number to add to the index of an incoming part to get its outgoing index."""
        self.index = 0
        self.calls = 0
        self.changed = False
        """Whether parts were rewritten. If so, the number of calls and thus the stop reason may have changed."""

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def begin(self, index: int) -> None:
        """Begin the replacement of the incoming part that has this index. Parts emitted from now on replace it."""
        self.index = index + self.shift

    def end(self, index: int) -> None:
        """End the replacement of the incoming part that has this index."""
        self.shift = self.index - index - 1

    def emit(self, event: Event) -> None:
        if isinstance(event, PartStart | PartDelta | PartEnd):
            if event.index != self.index:
                event = replace(event, index=self.index)
            if isinstance(event, PartEnd):
                self.index += 1
                self.calls += isinstance(event.part, ToolCall)
        self.events.append(event)

    def emit_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.emit(event)

    def write(self, repaired: Iterable[Repaired]) -> None:
        """Emit complete parts, each after its notes."""
        self.changed = True
        for notes, part in repaired:
            self.emit_all(notes)
            text = part.text if isinstance(part, Text) else part.arguments
            empty = Text() if isinstance(part, Text) else replace(part, arguments="")
            self.emit(PartStart(index=self.index, part=empty))
            if text:
                self.emit(PartDelta(index=self.index, text=text))
            self.emit(PartEnd(index=self.index, part=part))

    def finish(self, event: Finished) -> None:
        reason = reason_for(self.calls, event.reason) if self.changed else event.reason
        self.emit(event if reason is event.reason else replace(event, reason=reason))


class _TextPartRepair:
    """Searches text parts for calls.

    Until a call is found, the events of a part pass unchanged, possibly delayed. From the first call on, the part is
    rewritten as several parts.
    """

    def __init__(self, scanner: TextCallScanner, out: _RepairedEvents, emit_call: Callable[[TextCall], None]) -> None:
        self._scanner = scanner
        self._out = out
        self._emit_call = emit_call
        self._held: list[Event] = []
        self._pieces: list[str | TextCall] = []
        self._texts: list[str] = []
        self._blank = ""
        self._open = False
        self._is_rewritten = False
        self._begun = False

    def takes(self, event: Event) -> bool:
        """Process an event of a text part, or hold an event that arrives while such a part is held back.

        Return False if the caller has to process the event. This includes `Failed`, before which everything is emitted.
        """
        match event:
            case PartStart(part=Text(refusal=False)):
                self._open, self._is_rewritten, self._begun = True, False, False
                self._out.begin(event.index)
                self._held.append(event)
            case PartDelta() if self._open:
                self._held.append(event)
                self._pieces += self._scanner.feed(event.text)
                self._settle()
            case PartEnd() if self._open:
                self._held.append(event)
                self._pieces += self._scanner.close()
                self._settle()
                self._end(event)
            case Failed() if self._open:
                self._fail()
                return False
            case _ if self._open and self._held:
                self._held.append(event)
            case _:
                return False
        return True

    def _settle(self) -> None:
        """Emit the held events, or the texts and calls found in them. Wait if they may contain an incomplete call."""
        if not self._is_rewritten and any(isinstance(piece, TextCall) for piece in self._pieces):
            self._is_rewritten = True
        if self._is_rewritten:
            self._out.emit_all(event for event in self._held if not isinstance(event, PartStart | PartDelta | PartEnd))
            for piece in self._pieces:
                self._emit_piece(piece)
        elif self._scanner.holds:
            return
        else:
            self._release()
        self._held, self._pieces = [], []

    def _release(self) -> None:
        for event in self._held:
            if isinstance(event, PartDelta):
                self._texts.append(event.text)
            self._out.emit(event)
        self._begun = True

    def _emit_piece(self, piece: str | TextCall) -> None:
        """Emit a piece of the rewritten part: text or a call. Text that is only white space is dropped."""
        if isinstance(piece, TextCall):
            self._close(Text())
            self._emit_call(piece)
            return
        if not self._begun:
            self._blank += piece
            if self._blank.isspace():
                return
            piece, self._blank = self._blank, ""
            self._out.emit(PartStart(index=self._out.index, part=Text()))
            self._begun = True
        self._texts.append(piece)
        self._out.emit(PartDelta(index=self._out.index, text=piece))

    def _close(self, part: Text) -> None:
        if self._begun:
            self._out.emit(PartEnd(index=self._out.index, part=replace(part, text="".join(self._texts))))
        self._begun = False
        self._texts = []
        self._blank = ""

    def _end(self, event: PartEnd) -> None:
        if self._is_rewritten and isinstance(event.part, Text):
            self._close(event.part)
        self._texts = []
        self._open = False
        self._out.end(event.index)

    def _fail(self) -> None:
        """Emit everything that was held back. The part stays open, because the leg has failed."""
        if self._is_rewritten:
            for piece in self._scanner.close():
                self._emit_piece(piece)
        else:
            self._release()
        self._held, self._pieces, self._open = [], [], False
