"""Values cut down to what is worth keeping for a person to look at: of long texts the beginning, of pictures the size.

A budget is spent piece by piece; what comes when it is used up is left out. What only a protocol needs to get back
(`meta`) is not kept at all.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

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
from tieline.model.request import Reasoning, Request, ToolSpec

LONGEST = 32 * 1024
"""Characters of one text."""
EACH = 64
"""What a value weighs beside its text."""


class Budget:
    """How much may still be kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left = limit

    @property
    def spent(self) -> int:
        """What has been kept."""
        return self._limit - self.left

    def text(self, text: str, longest: int = LONGEST) -> str:
        """As much of a text as may be kept."""
        most = max(0, min(longest, self.left))
        self.left -= min(len(text), most) + EACH
        return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"

    def part(self, part: Part) -> Part:
        """A part of a message."""
        match part:
            case Text():
                return Text(text=self.text(part.text), refusal=part.refusal)
            case Thinking():
                signature = None if part.signature is None else self.text(part.signature, EACH)
                return Thinking(text=self.text(part.text), signature=signature, redacted=part.redacted)
            case Image():
                return Image(media_type=part.media_type, data=self._data(part), url=self._address(part))
            case File():
                return File(media_type=part.media_type, data=self._data(part), url=self._address(part), name=part.name)
            case ToolCall():
                return ToolCall(id=part.id, name=part.name, arguments=self.text(part.arguments), freeform=part.freeform)
            case ToolResult():
                content = tuple(self.part(piece) for piece in part.content)
                return replace(part, content=content, meta={})
            case Foreign():
                return Foreign(protocol=part.protocol, kind=part.kind, json=self.text(part.json))
            case _:
                assert_never(part)

    def request(self, request: Request) -> Request:
        """A request: of a long history the end."""
        tools = tuple(self._tool(tool) for tool in request.tools)
        return replace(
            request,
            messages=self._messages(request.messages),
            tools=tools,
            reasoning=Reasoning(
                mode=request.reasoning.mode, budget=request.reasoning.budget, effort=request.reasoning.effort
            ),
            extra={name: raw for name, raw in request.extra.items() if self._fits(len(bytes(raw)))},
        )

    def event(self, event: Event) -> Event:
        """An event; a delta beyond the budget is empty."""
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
            case Started() | Usage() | Plan() | Finished() | Failed():
                self.left -= EACH
                return event
            case _:
                assert_never(event)

    def _messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        kept: list[Message] = []
        for message in reversed(messages):
            if self.left <= 0:
                break
            kept.append(Message(role=message.role, parts=tuple(self.part(part) for part in message.parts)))
        missing = len(messages) - len(kept)
        if missing:
            kept.append(Message(role="system", parts=(Text(text=f"… {missing} earlier messages are not kept"),)))
        return tuple(reversed(kept))

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        schema = tool.schema if self._fits(len(tool.schema)) else b"{}"
        return replace(tool, description=self.text(tool.description), schema=schema, meta={})

    def _activity(self, activity: Activity) -> Activity:
        diffs = tuple(
            replace(diff, old=None if diff.old is None else self.text(diff.old), new=self.text(diff.new))
            for diff in activity.diffs
        )
        return replace(activity, title=self.text(activity.title), output=self.text(activity.output), diffs=diffs)

    def _data(self, part: Image | File) -> str | None:
        return None if part.data is None else self.text(part.data, EACH)

    def _address(self, part: Image | File) -> str | None:
        return None if part.url is None else self.text(part.url, 2048)

    def _fits(self, size: int) -> bool:
        fits = size <= self.left
        if fits:
            self.left -= size + EACH
        return fits


def weight(parts: Iterable[Part]) -> int:
    """About how many characters parts hold; by `type`, since this is done with every message of every request."""
    total = 0
    for part in parts:
        kind = type(part)
        if kind is Text or kind is Thinking:
            total += len(part.text) + EACH  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is ToolCall:
            total += len(part.arguments) + EACH  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is ToolResult:
            total += weight(part.content) + EACH  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is Foreign:
            total += len(part.json) + EACH  # type: ignore[union-attr] # mypy does not narrow by `kind`
        else:
            total += len(part.data or part.url or "") + EACH  # type: ignore[union-attr] # a picture or a file
    return total


def weight_of(request: Request) -> int:
    """About how many characters a request holds."""
    tools = sum(len(tool.schema) + len(tool.description) + EACH for tool in request.tools)
    more = sum(len(bytes(raw)) for raw in request.extra.values())
    return tools + more + sum(weight(message.parts) for message in request.messages)


def joined(batch: Batch) -> list[Event]:
    """The batch with deltas that follow one another joined into one."""
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
