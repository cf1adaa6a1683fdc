"""What models get wrong about tool calls, put right on the way to the client.

All of it is off unless an upstream is known to need it, but for `parallel`, which cannot hurt. Every repair is told by
a Note directly in front of what it changed.

    parallel    a wrapper around several calls (`multi_tool_use.parallel`) is taken off
    text_calls  a call that was written as text becomes a call (text_calls.py)
    coerce      a string becomes the array, object, number or boolean that the schema wants there
    keys        spaces around the key of an argument are taken off
    json        malformed but complete JSON is mended (mend.py), unless the leg was cut short
    unknown     a call to a tool that was not offered passes, but is noted
    repeat      a call that was made and answered three times in a row, with the same arguments and each time the same
                result, is not made again: text in its place tells the model and the user so (repeats.py)

Events that nothing is wrong with pass as the objects they are. A call that may be changed is held until it is whole;
one whose JSON is malformed until the ending tells whether it was cut short.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from tieline.core.repair.call_repair import CallRepair, Repaired
from tieline.core.repair.text_calls import Found, Scanner
from tieline.model.assemble import reason_for
from tieline.model.content import Message, Text, ToolCall
from tieline.model.events import Batch, Event, Failed, Finished, Note, PartDelta, PartEnd, PartStart, Started, of_kind
from tieline.model.events import StopReason as Why
from tieline.model.request import ToolSpec

RepairName = Literal["parallel", "text_calls", "coerce", "keys", "json", "unknown", "repeat"]

DEFAULT: frozenset[RepairName] = frozenset({"parallel"})

_WHOLE = (Why.END_TURN, Why.TOOL_USE)
"""The endings after which nothing can have been cut short."""


def needed(tools: Sequence[ToolSpec], enabled: frozenset[RepairName]) -> bool:
    """Whether a leg of such a request can need any repair; if not, there is no use in making Repairs for it."""
    return bool(tools and enabled)


class Repairs:
    """The enabled repairs of one leg; `history` is the tidy history of its request."""

    def __init__(
        self, tools: Sequence[ToolSpec], enabled: frozenset[RepairName], history: Sequence[Message] = ()
    ) -> None:
        self._calls = CallRepair(tools, enabled, history)
        scanner = Scanner(self._calls.shapes) if "text_calls" in enabled else None
        self._line = _Line()
        self._text = None if scanner is None else _TextUnderWay(scanner, self._line, self._found)
        self._held: list[Event] = []
        self._waiting: list[Event] | None = None
        self._cut: bool | None = None
        self._id = ""
        self._recovered = 0
        self._watches = scanner is not None or bool(self._calls.stopped)
        self._idle = not self._watches

    def apply(self, batch: Batch) -> Batch:
        """The events as the client is to have them; the very same batch if nothing in it can need a repair."""
        if self._idle:
            for start in of_kind(batch, PartStart):
                if type(start.part) is ToolCall and self._calls.touches(start.part):
                    break
            else:
                return batch
        for event in batch:
            self._take(event)
        self._idle = not (self._watches or self._busy())
        return self._line.take()

    def _busy(self) -> bool:
        return bool(self._held or self._waiting is not None or self._line.shift or self._line.changed)

    def _take(self, event: Event) -> None:
        if self._waiting is not None:
            self._waiting.append(event)
            if isinstance(event, Finished | Failed):
                self._ending_known(event)
        elif self._text is not None and self._text.takes(event):
            pass
        elif self._held:
            self._hold(event)
        elif isinstance(event, PartStart) and isinstance(event.part, ToolCall) and self._calls.touches(event.part):
            self._line.begin(event.index)
            self._held.append(event)
        else:
            self._pass(event)

    def _pass(self, event: Event) -> None:
        match event:
            case PartStart() | PartDelta() | PartEnd():
                self._line.begin(event.index)
                self._line.emit(event)
            case Started():
                self._id = event.id
                self._line.emit(event)
            case Finished():
                self._line.finish(event)
            case _:
                self._line.emit(event)

    def _hold(self, event: Event) -> None:
        """More of a call that is held; a failure lets go of it as it is."""
        if isinstance(event, Failed):
            self._line.emit_all(self._held)
            self._held = []
            self._line.emit(event)
            return
        self._held.append(event)
        if isinstance(event, PartEnd) and isinstance(event.part, ToolCall):
            self._whole(event.part, event.index)

    def _whole(self, call: ToolCall, index: int) -> None:
        held, self._held = self._held, []
        if self._cut is None and self._calls.malformed(call):
            self._waiting = held
            return
        repaired = self._calls.repaired(call, cut=bool(self._cut))
        if repaired is None or (len(repaired) == 1 and repaired[0].part is call):
            self._line.emit_all(repaired[0].notes if repaired else ())
            self._line.emit_all(held)
        else:
            self._line.emit_all(event for event in held if not isinstance(event, PartStart | PartDelta | PartEnd))
            self._line.write(repaired)
        self._line.end(index)

    def _ending_known(self, ending: Finished | Failed) -> None:
        """Take what waited for the ending once more."""
        self._cut = not (isinstance(ending, Finished) and ending.reason in _WHOLE)
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self._take(event)

    def _found(self, found: Found) -> None:
        """A call was found in text."""
        self._recovered += 1
        call = ToolCall(id=f"{self._id or 'call'}_t{self._recovered}", name=found.name, arguments=found.arguments)
        note = Note(kind="repair", message=f"a call to {found.name} was recovered from text")
        repaired = self._calls.repaired(call, cut=False) or [Repaired((), call)]
        self._line.emit(note)
        self._line.write(repaired)


class _Line:
    """Where events go out, with indices that follow one another whatever was added or taken away."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.shift = 0
        """How far the indices going out are ahead of those coming in."""
        self.index = 0
        self.calls = 0
        self.changed = False
        """Whether calls were added or taken away, so that the reason of the ending has to be looked at."""

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def begin(self, index: int) -> None:
        """What takes the place of this part comes now."""
        self.index = index + self.shift

    def end(self, index: int) -> None:
        """What took the place of this part is complete."""
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
        """Whole parts, each behind its notes."""
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


class _TextUnderWay:
    """The open text part, in which calls may be found.

    As long as none is, the part's own events go out, late at most; from the first one on the part is made anew.
    """

    def __init__(self, scanner: Scanner, line: _Line, found: Callable[[Found], None]) -> None:
        self._scanner = scanner
        self._line = line
        self._found = found
        self._held: list[Event] = []
        self._pieces: list[str | Found] = []
        self._words: list[str] = []
        self._blank = ""
        self._open = False
        self._remade = False
        self._begun = False

    def takes(self, event: Event) -> bool:
        """Whether this event is part of a text; if so, it has been dealt with."""
        match event:
            case PartStart(part=Text(refusal=False)):
                self._open, self._remade, self._begun = True, False, False
                self._line.begin(event.index)
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
        """Let go of what is decided."""
        if not self._remade and any(isinstance(piece, Found) for piece in self._pieces):
            self._remade = True
        if self._remade:
            self._line.emit_all(event for event in self._held if not isinstance(event, PartStart | PartDelta | PartEnd))
            for piece in self._pieces:
                self._say(piece)
        elif self._scanner.holds:
            return
        else:
            self._let_go()
        self._held, self._pieces = [], []

    def _let_go(self) -> None:
        for event in self._held:
            if isinstance(event, PartDelta):
                self._words.append(event.text)
            self._line.emit(event)
        self._begun = True

    def _say(self, piece: str | Found) -> None:
        """Words or a call, in the part made anew; blanks before a call or the end are no words."""
        if isinstance(piece, Found):
            self._close(Text())
            self._found(piece)
            return
        if not self._begun:
            self._blank += piece
            if self._blank.isspace():
                return
            piece, self._blank = self._blank, ""
            self._line.emit(PartStart(index=self._line.index, part=Text()))
            self._begun = True
        self._words.append(piece)
        self._line.emit(PartDelta(index=self._line.index, text=piece))

    def _close(self, part: Text) -> None:
        if self._begun:
            self._line.emit(PartEnd(index=self._line.index, part=replace(part, text="".join(self._words))))
        self._begun = False
        self._words = []
        self._blank = ""

    def _end(self, event: PartEnd) -> None:
        if self._remade and isinstance(event.part, Text):
            self._close(event.part)
        self._words = []
        self._open = False
        self._line.end(event.index)

    def _fail(self) -> None:
        """A leg that fails leaves its part open, with all that was said."""
        if self._remade:
            for piece in self._scanner.close():
                self._say(piece)
        else:
            self._let_go()
        self._held, self._pieces, self._open = [], [], False
