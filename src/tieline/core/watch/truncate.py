"""Truncate requests and events for display: shorten long texts, and keep only the beginning of image and file data.

The size of each value is deducted from a budget. When the budget is used up, the remaining messages, parts and tools
are dropped. The protocol metadata (`meta`) of messages, parts and tools is always dropped.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar, assert_never

from msgspec.structs import replace

from tieline.model.content import File, Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Started,
    Usage,
)
from tieline.model.request import OutputFormat, Reasoning, Request, ToolSpec

T = TypeVar("T")

MAX_TEXT = 32 * 1024
"""Maximum length of one text in characters."""
MAX_NAME = 256
"""Maximum length of an id, a media type, or the name of a model or tool."""
VALUE_OVERHEAD = 64
"""The assumed size of a value in addition to its text, in characters."""


class Budget:
    """A size budget in characters. Its methods return truncated copies of values and deduct the size of the copies."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left = limit

    @property
    def spent(self) -> int:
        """The total size of the values that have been returned."""
        return self._limit - self.left

    def text(self, text: str, longest: int = MAX_TEXT) -> str:
        """Truncate a text to at most `longest` characters, or fewer if the remaining budget is smaller."""
        most = max(0, min(longest, self.left))
        self.left -= min(len(text), most) + VALUE_OVERHEAD
        return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"

    def name(self, text: str) -> str:
        """Truncate a name to MAX_NAME characters."""
        return self.text(text, MAX_NAME)

    def part(self, part: Part) -> Part:
        """Truncate a part of a message."""
        match part:
            case Text():
                return Text(text=self.text(part.text), refusal=part.refusal)
            case Thinking():
                signature = None if part.signature is None else self.text(part.signature, VALUE_OVERHEAD)
                return Thinking(text=self.text(part.text), signature=signature, redacted=part.redacted)
            case Image():
                return Image(media_type=self.name(part.media_type), data=self._data(part), url=self._address(part))
            case File():
                name = None if part.name is None else self.name(part.name)
                kind = self.name(part.media_type)
                return File(media_type=kind, data=self._data(part), url=self._address(part), name=name)
            case ToolCall():
                arguments = self.text(part.arguments)
                return ToolCall(
                    id=self.name(part.id), name=self.name(part.name), arguments=arguments, freeform=part.freeform
                )
            case ToolResult():
                return replace(part, call_id=self.name(part.call_id), content=self._parts(part.content), meta={})
            case Foreign():
                return Foreign(protocol=part.protocol, kind=self.name(part.kind), json=self.text(part.json))
            case _:
                assert_never(part)

    def request(self, request: Request) -> Request:
        """Truncate a request. If the history is too long, keep its end."""
        tools = tuple(self._tool(tool) for tool in self._within_budget(request.tools))
        return replace(
            request,
            model=self.name(request.model),
            user=self._optional(request.user),
            cache_key=self._optional(request.cache_key),
            session=self._optional(request.session),
            mode=self._optional(request.mode),
            sampling=replace(
                request.sampling, stop=tuple(self.name(stop) for stop in self._within_budget(request.sampling.stop))
            ),
            output=None if request.output is None else self._output(request.output),
            headers=tuple((self.name(name), self.name(value)) for name, value in request.headers),
            messages=self._messages(request.messages),
            tools=tools,
            reasoning=Reasoning(
                mode=request.reasoning.mode, budget=request.reasoning.budget, effort=request.reasoning.effort
            ),
            extra={name: raw for name, raw in request.extra.items() if self._fits(len(name) + len(bytes(raw)))},
        )

    def event(self, event: Event) -> Event:
        """Truncate the texts in an event."""
        match event:
            case PartDelta():
                return PartDelta(index=event.index, text=self.text(event.text))
            case PartEnd():
                return PartEnd(index=event.index, part=self.part(event.part))
            case PartStart():
                return PartStart(index=event.index, part=self.part(event.part))
            case Activity():
                return self._activity(event)
            case Note():
                return Note(kind=event.kind, message=self.text(event.message), what=event.what)
            case Failed():
                return replace(event, message=self.text(event.message))
            case Started() | Usage() | Plan() | Finished():
                self.left -= VALUE_OVERHEAD
                return event
            case _:
                assert_never(event)

    def _messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        kept: list[Message] = []
        for message in reversed(messages):
            if self.left <= 0:
                break
            self.left -= VALUE_OVERHEAD
            kept.append(Message(role=message.role, parts=self._parts(message.parts)))
        missing = len(messages) - len(kept)
        if missing:
            kept.append(Message(role="system", parts=(Text(text=f"… {missing} earlier messages are not kept"),)))
        return tuple(reversed(kept))

    def _parts(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(self.part(part) for part in self._within_budget(parts))

    def _within_budget(self, values: Sequence[T]) -> Iterator[T]:
        for value in values:
            if self.left <= 0:
                return
            yield value

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def _output(self, output: OutputFormat) -> OutputFormat:
        schema = output.schema
        if schema is not None and not self._fits(len(schema)):
            schema = b"{}"
        return replace(output, name=self.name(output.name), schema=schema)

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        schema = tool.schema if self._fits(len(tool.schema)) else b"{}"
        return replace(tool, name=self.name(tool.name), description=self.text(tool.description), schema=schema, meta={})

    def _activity(self, activity: Activity) -> Activity:
        diffs = tuple(
            replace(diff, old=None if diff.old is None else self.text(diff.old), new=self.text(diff.new))
            for diff in activity.diffs
        )
        return replace(activity, title=self.text(activity.title), output=self.text(activity.output), diffs=diffs)

    def _data(self, part: Image | File) -> str | None:
        return None if part.data is None else self.text(part.data, VALUE_OVERHEAD)

    def _address(self, part: Image | File) -> str | None:
        return None if part.url is None else self.text(part.url, 2048)

    def _fits(self, size: int) -> bool:
        fits = size <= self.left
        if fits:
            self.left -= size + VALUE_OVERHEAD
        return fits


def join_deltas(batch: Batch) -> list[Event]:
    """Return the batch with consecutive deltas of the same part joined."""
    out: list[Event] = []
    texts: list[str] = []
    index = 0
    for event in batch:
        if type(event) is PartDelta:
            if texts and event.index != index:
                out.append(PartDelta(index=index, text="".join(texts)))
                texts = []
            index = event.index
            texts.append(event.text)
            continue
        if texts:
            out.append(PartDelta(index=index, text="".join(texts)))
            texts = []
        out.append(event)
    if texts:
        out.append(PartDelta(index=index, text="".join(texts)))
    return out
