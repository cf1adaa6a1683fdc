"""Copy frames from an upstream that uses the same protocol, and record what the client has received.

If a batch cannot be copied, the writer uses this record to continue the answer: it needs the next sequence number and
the open item.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.content import Part, Text, ToolCall
from tieline.model.events import Event, Failed, Finished, PartDelta, PartEnd, PartStart, Started, Usage
from tieline.model.source import AnswerSource
from tieline.wire.openai_responses.dialect import Options
from tieline.wire.openai_responses.schema import ABSENT
from tieline.wire.shared.json import encode
from tieline.wire.shared.shapes import Shape
from tieline.wire.shared.sources import with_model

_STATE = frozenset(["status", "completed_at", "error", "incomplete_details", "output", "usage"])
"""Members of a response that change during the answer."""


class _Frame(Shape):
    """The members of an event that the writer needs."""

    type: str = ""
    sequence_number: int = 0
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item: Raw = ABSENT
    part: Raw = ABSENT
    response: Raw = ABSENT


class _Item(Shape):
    id: str | None = None


_FRAME = msgspec.json.Decoder(_Frame)
_ITEM = msgspec.json.Decoder(_Item)
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])


class CopiedStream:
    """Copies the frames of one answer, and records the state that a writer needs to continue after them."""

    def __init__(self, options: Options) -> None:
        self._buffered = options.arguments == "buffered"
        self._own = options.own
        self._model = ""
        self.sequence = 0
        """The sequence number of the next event."""
        self.items: list[Any] = []
        """The items that have ended, as JSON."""
        self.count = 0
        """The number of items that have begun, including those that have ended."""
        self.id = ""
        self.head = b""
        """The JSON of the response up to its status; see `ResponseWriter._head`."""
        self.response = b""
        """The final response as JSON; empty until it is received."""
        self.usage = Usage()
        self.has_content = self.refused = self.ended = False
        self.part: Part | None = None
        """The current part of the open item, as it was when the part started."""
        self.final: Part | None = None
        """The complete form of `part`, if the part has ended but its item has not."""
        self.chunks: list[str] = []
        self.item_id = ""
        self.index = self.content_index = 0
        self.before: list[Any] = []
        """The parts of the open item that have ended."""

    def may_copy(self, batch: Sequence[Event]) -> bool:
        """Return whether the frames of a batch can be copied. A call cannot be copied if arguments are buffered."""
        if not self._buffered:
            return True
        is_call = isinstance(self.part, ToolCall) and self.final is None
        return not is_call and not any(type(event) is PartStart and type(event.part) is ToolCall for event in batch)

    def copy(self, batch: Sequence[Event], source: AnswerSource) -> bytes:
        """Return the frames of a batch as bytes, and update the state as if its events had been written."""
        for event in batch:
            self._follow(event)
        text = with_model(source, self._model)
        if self._own and b'"response":' in text:
            text = b"\n".join(with_members(line, self._own) for line in text.split(b"\n"))
        for frame in _frames(text):
            self._track(frame)
        return text

    def _follow(self, event: Event) -> None:
        match event:
            case PartDelta():
                self.chunks.append(event.text)
            case PartStart():
                self.part, self.final, self.chunks = event.part, None, []
            case PartEnd():
                self.final = event.part
                self.has_content = self.has_content or isinstance(event.part, Text | ToolCall)
                self.refused = self.refused or (isinstance(event.part, Text) and event.part.refusal)
            case Started():
                self._model = event.model
            case Usage():
                self.usage = event
            case Finished() | Failed():
                self.ended = True
            case _:
                pass

    def _track(self, frame: _Frame) -> None:
        self.sequence = frame.sequence_number + 1
        index = frame.content_index if frame.summary_index is None else frame.summary_index
        self.content_index = self.content_index if index is None else index
        match frame.type:
            case "response.created":
                self._begin(frame.response)
            case "response.output_item.added":
                self.item_id = _ITEM.decode(frame.item).id or ""
                self.index = self.count if frame.output_index is None else frame.output_index
                self.count, self.content_index, self.before = self.index + 1, 0, []
            case "response.content_part.done" | "response.reasoning_summary_part.done":
                self.before.append(frame.part)
            case "response.output_item.done":
                self.items.append(frame.item)
                self.part = self.final = None
            case "response.completed" | "response.incomplete" | "response.failed":
                self.response = bytes(frame.response)
            case _:
                pass

    def _begin(self, response: Raw) -> None:
        members = _MEMBERS.decode(response)
        self.id = msgspec.json.decode(members.get("id", Raw(b'""')), type=str)
        fixed = {name: value for name, value in members.items() if name not in _STATE}
        self.head = encode(fixed)[:-1] + b","


def with_members(line: bytes, members: Mapping[str, Any]) -> bytes:
    """Return a line of a stream with `members` set in its response. A line without a response is returned unchanged."""
    try:
        event = _MEMBERS.decode(line[5:]) if line.startswith(b"data:") else {}
        response = _MEMBERS.decode(event["response"]) if "response" in event else None
    except (ValueError, RecursionError):
        return line
    return line if response is None else b"data: " + encode({**event, "response": {**response, **members}})


def _frames(text: bytes) -> Iterator[_Frame]:
    """Yield all events that are not deltas, and the last event in any case, because it has the last sequence number.

    Most events are deltas; they are skipped to save time.
    """
    lines = [line[5:] for line in text.split(b"\n") if line.startswith(b"data:")]
    last = len(lines) - 1
    for position, line in enumerate(lines):
        if position == last or b".delta" not in line[:60]:
            try:
                yield _FRAME.decode(line)
            except (ValueError, RecursionError):
                continue
