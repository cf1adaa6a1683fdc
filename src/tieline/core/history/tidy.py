"""Normalise the tool calls and results in a history, so that every upstream accepts it.

Clients interrupt turns, compact their history, and send the results of parallel calls in order of completion or in
separate messages. Some upstreams reject such a history, and they would reject every later request too, because clients
send the complete history each time. A history is processed in *turns*. Here, a turn consists of consecutive assistant
messages and the messages after them, up to the next assistant message. Results belong to the calls of their own turn,
so an id may be used again in a later turn. After `tidy`

- every call has a unique id and exactly one result, in the next message. This is a user message with the results first,
  in the order of the calls, and then other parts;
- a result that belongs to no call is replaced by text with the same content;
- everything else is unchanged. A history that needs no change is returned as the same tuple.

A turn is normalised independently of later turns. The beginning of a growing conversation therefore stays the same, and
the upstream's prompt cache remains usable.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult
from tieline.model.events import Note

INTERRUPTED = "No result: the call was interrupted."


def tidy(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Note, ...]]:
    """Return the normalised history, and notes about the changes."""
    if _is_tidy(messages, set()):
        return messages, ()
    history = _History()
    for said, after in _turns(messages):
        history.add(said, after)
    return tuple(history.messages), tuple(history.notes)


def _is_tidy(messages: Iterable[Message], used: set[str]) -> bool:
    """Return whether the messages need no change. Add the ids of their calls to `used`."""
    calls: list[str] = []
    for message in messages:
        if message.role != "assistant":
            if not _answers(message, calls):
                return False
            calls = []
        elif calls:
            return False
        else:
            made = _calls_of(message, used)
            if made is None:
                return False
            calls = made
    return not calls


def _calls_of(message: Message, used: set[str]) -> list[str] | None:
    """Return the ids of the calls in a message, and add them to `used`. Return None if the message must be changed."""
    calls = []
    for part in message.parts:
        if type(part) is ToolCall:
            call_id = part.id
            if not call_id or call_id in used:
                return None
            used.add(call_id)
            calls.append(call_id)
        elif type(part) is ToolResult:
            return None
    return calls


def _answers(message: Message, calls: list[str]) -> bool:
    """Return whether a message begins with the results of these calls, in order, and contains no other results."""
    count, parts = len(calls), message.parts
    if not count:
        return ToolResult not in map(type, parts)
    answered = [part.call_id for part in parts[:count] if type(part) is ToolResult]
    return message.role == "user" and answered == calls and ToolResult not in map(type, parts[count:])


def _turns(messages: Sequence[Message]) -> Iterator[tuple[Sequence[Message], Sequence[Message]]]:
    """Yield each turn: its assistant messages (there may be none in the first turn) and the messages after them."""
    start = middle = 0
    for place, message in enumerate(messages):
        if message.role == "assistant":
            if place > middle:
                yield messages[start:middle], messages[middle:place]
                start = place
            middle = place + 1
    yield messages[start:middle], messages[middle:]


class _History:
    """The normalised history under construction."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.notes: list[Note] = []
        self.ids: set[str] = set()
        self.numbers: dict[str, int] = {}

    def add(self, said: Sequence[Message], after: Sequence[Message]) -> None:
        """Add a turn: its assistant messages and the messages after them."""
        new: set[str] = set()
        if _is_tidy((*said, *after), new) and new.isdisjoint(self.ids):
            self.ids |= new
            self.messages += (*said, *after)
            return
        if after and said:
            said = self._joined(said)
        for message in said[:-1]:
            self._pair(message, ())
        if said:
            self._pair(said[-1], after)
        else:
            self.messages += (self._without_results(message) for message in after)

    def note(self, message: str) -> None:
        self.notes.append(Note(kind="history", message=message))

    def free_id(self, wanted: str) -> str:
        """Return the id `wanted` if no earlier call has it, otherwise the id with a number appended."""
        name, stem = wanted, wanted or "call"
        while not name or name in self.ids:
            number = self.numbers[stem] = self.numbers.get(stem, 1) + 1
            name = f"{stem}_{number}"
        self.ids.add(name)
        return name

    def _joined(self, said: Sequence[Message]) -> Sequence[Message]:
        """Join the assistant messages of a turn, beginning with the first one that has a call.

        The messages have to be joined because the results of all their calls come after the last message.
        """
        for place, message in enumerate(said[:-1]):
            if any(isinstance(part, ToolCall) for part in message.parts):
                self.note("assistant messages between a call and its result were joined")
                rest = said[place:]
                parts = tuple(part for one in rest for part in one.parts)
                return *said[:place], replace(message, parts=parts)
        return said

    def _pair(self, message: Message, after: Sequence[Message]) -> None:
        """Add an assistant message, the results of its calls, and what remains of the messages in `after`."""
        noted = len(self.notes)
        calls = _Calls(self, self._without_results(message))
        self.messages.append(calls.message)
        if not calls.slots:
            self.messages += (self._without_results(one) for one in after)
            return
        taken = calls.take(after)
        results = calls.results()
        left = [self._left_of(one, taken) for one in after]
        if left and after[0].role == "user":
            others = left[0].parts if left[0] is not None else ()
            left[0] = replace(after[0], parts=(*results, *others))
        else:
            self.messages.append(Message(role="user", parts=results))
        self.messages += (one for one in left if one is not None)
        if len(self.notes) == noted:
            self.note("results were moved directly after their calls, in the order of the calls")

    def _left_of(self, message: Message, taken: set[int]) -> Message | None:
        """Return a message without the results that were taken from it, or None if nothing is left."""
        parts = tuple(part for part in message.parts if id(part) not in taken)
        if len(parts) == len(message.parts):
            return self._without_results(message)
        return self._without_results(replace(message, parts=parts)) if parts else None

    def _without_results(self, message: Message) -> Message:
        """Return a message with its results replaced by text. Call this only if they belong to no call."""
        if not any(isinstance(part, ToolResult) for part in message.parts):
            return message
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                self.note(f"the result of {_named(part)} belongs to no call and was replaced by text")
                parts += _as_text(part, message.role == "user")
            else:
                parts.append(part)
        return replace(message, parts=tuple(parts))


class _CallSlot:
    """A call and its result. `result` is None until the result is found."""

    __slots__ = ("call", "result")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.result: ToolResult | None = None


class _Calls:
    """The calls of one message, with unique ids, and their results."""

    def __init__(self, history: _History, message: Message) -> None:
        self.history = history
        self.slots: list[_CallSlot] = []
        self.by_id: dict[str, list[_CallSlot]] = {}
        self.made: set[tuple[str, str, str]] = set()
        parts = [part for part in map(self._kept, message.parts) if part is not None]
        changed = any(new is not old for new, old in zip(parts, message.parts, strict=False))
        changed = changed or len(parts) != len(message.parts)
        self.message = replace(message, parts=tuple(parts)) if changed else message

    def _kept(self, part: Part) -> Part | None:
        if not isinstance(part, ToolCall):
            return part
        made = (part.id, part.name, part.arguments)
        if part.id and made in self.made:
            self.history.note(f"a duplicate of the call {part.id} was removed")
            return None
        self.made.add(made)
        slot = _CallSlot(self._renamed(part))
        self.by_id.setdefault(part.id, []).append(slot)
        self.slots.append(slot)
        return slot.call

    def _renamed(self, call: ToolCall) -> ToolCall:
        """Return the call, with a new id if it has none or if an earlier call has the same id."""
        name = self.history.free_id(call.id)
        if name == call.id:
            return call
        self.history.note(f"the id of a call to {call.name} was changed from {call.id!r} to {name}")
        return replace(call, id=name)

    def take(self, messages: Iterable[Message]) -> set[int]:
        """Assign the results in these messages to their calls. Return the `id()` of each assigned result."""
        without_id: list[ToolResult] = []
        taken: set[int] = set()
        turn: dict[str, int] = {}
        for message in messages:
            for part in message.parts:
                if not isinstance(part, ToolResult):
                    continue
                if not part.call_id:
                    without_id.append(part)
                elif part.call_id in self.by_id:
                    self._answer(part, turn)
                    taken.add(id(part))
        open_slots = [slot for slot in self.slots if slot.result is None]
        if without_id and len(without_id) == len(open_slots):
            self.history.note("results without an id were matched by their order")
            for slot, result in zip(open_slots, without_id, strict=True):
                slot.result = result
                taken.add(id(result))
        return taken

    def _answer(self, result: ToolResult, turn: dict[str, int]) -> None:
        """Assign a result to the next call with its id. If all these calls have results, replace the last result.

        `turn` counts the results that were assigned, by call id.
        """
        slots = self.by_id[result.call_id]
        place = turn.get(result.call_id, 0)
        turn[result.call_id] = place + 1
        slot = slots[min(place, len(slots) - 1)]
        if slot.result is not None:
            self.history.note(f"there was more than one result of {_named(result)}; the last one was used")
        slot.result = result

    def results(self) -> tuple[ToolResult, ...]:
        """Return one result for each call, in the order of the calls. A missing result is replaced by an error."""
        return tuple(self._result(slot) for slot in self.slots)

    def _result(self, slot: _CallSlot) -> ToolResult:
        call, result = slot.call, slot.result
        if result is None:
            self.history.note(f"the call {call.id} had no result")
            return ToolResult(call_id=call.id, content=(Text(text=INTERRUPTED),), is_error=True)
        return result if result.call_id == call.id else replace(result, call_id=call.id)


def _named(result: ToolResult) -> str:
    return f"call {result.call_id}" if result.call_id else "a call without an id"


def _as_text(result: ToolResult, with_images: bool) -> list[Part]:
    """Return the content of a result with a label. Unless `with_images` is true, replace images and files by text."""
    label = f"Result of an earlier tool call (id {result.call_id or 'unknown'}): "
    content: list[Text | Image | File] = list(result.content) or [Text(text="(empty)")]
    if not with_images:
        content = [part if isinstance(part, Text) else _placeholder(part) for part in content]
    first = content[0]
    if isinstance(first, Text):
        return [replace(first, text=label + first.text), *content[1:]]
    return [Text(text=label.rstrip()), *content]


def _placeholder(part: Image | File) -> Text:
    return Text(text="[image]" if isinstance(part, Image) else "[file]")
