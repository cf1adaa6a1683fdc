"""Write the events of a leg as a Responses answer: a stream, or one body.

Items never overlap. An item has the same id in all of its events and in the final response. The last event of a
message, or of a call that may be incomplete, is held until the next event of the leg, which shows whether the item was
cut off. For a call that was cut off, this last event is not written, because clients run a call as soon as they receive
it.

Frames from an upstream that uses the same protocol are written unchanged (see `copying`), unless the gateway has to
change the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tieline.model.assemble import unfold
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
    source_of,
)
from tieline.wire.openai_responses.answer_items import (
    Json,
    content_part,
    final_arguments,
    message_item,
    prefix_of,
    reasoning_item,
    summary_part,
    tool_call_item,
    usage_json,
)
from tieline.wire.openai_responses.client_tools import CLIENT_TOOLS
from tieline.wire.openai_responses.compaction import KINDS, compaction_item
from tieline.wire.openai_responses.copying import CopiedStream
from tieline.wire.openai_responses.dialect import Options
from tieline.wire.openai_responses.echo import DEFAULT_ECHO
from tieline.wire.openai_responses.errors import failed_error
from tieline.wire.openai_responses.names import OfferedTool, split_name
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.json import decode_any, encode, is_object, one_line
from tieline.wire.shared.sources import completed, merged

KEEP_ALIVE = b": keep-alive\n"
"""A comment without a blank line, because some clients would treat the blank line as the end of an event."""

_DEFAULT = Options()
_LIST = msgspec.json.Decoder(list[Raw])
_NO_TEXT = Text()
_NOTHING = (b"", b"", b"")
_MAX_TOKENS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL)
_REFUSAL = StopReason.REFUSAL
_NO_SUMMARY = Failed(kind="upstream", message="The model did not write a summary of the conversation.", status=502)
_TRANSLATED = frozenset(["error", "incomplete_details", "output"])
"""Members of a response that are always written from the events, never copied from the upstream."""
_CUT_NOTES = {
    "max_output_tokens": "[The answer was cut off: it reached the token limit.]",
    "content_filter": "[The answer was cut off: the model declined to continue.]",
}
"""Messages for clients that cannot handle incomplete responses, by the reason why the answer was cut off."""
_ID_PART = 40
"""Maximum number of characters that an item id takes from the response id."""


class OpenItem(Struct):
    """An item whose last event has not been written. `final` is set once its part has ended."""

    id: str
    index: int
    part: Part
    """The current part of the item, as it was when the part started."""
    chunks: list[str] = []
    content_index: int = 0
    before: list[Any] = []
    """The earlier parts of the item, as JSON."""
    has_part: bool = False
    """For a reasoning item: whether the start of its summary part was written."""
    final: Text | Thinking | ToolCall | None = None


class ResponseWriter:
    """Writes the events of one leg as server-sent events."""

    def __init__(self, options: Options = _DEFAULT) -> None:
        self.response = b""
        """The final response as JSON; empty until the answer has ended."""
        self._options = options
        self._sequence = 0
        self._head = b""
        """The JSON of the response up to its status; empty until the response has begun."""
        self._id = ""
        self._items: list[Any] = []
        """The items that have ended, as JSON."""
        self._count = 0
        """The number of items that have begun, including those that have ended."""
        self._item: OpenItem | None = None
        self._held: OpenItem | None = None
        """The item whose last event is held, if any."""
        self._around = _NOTHING
        """The bytes of a delta before its sequence number, between the number and the text, and after the text.

        They are empty if the deltas of the open part are not written.
        """
        self._summary: list[str] = []
        """The texts of the answer, collected only if the answer is the summary of a conversation."""
        self._usage = Usage()
        self._has_content = self._refused = False
        """Whether the answer contains text or calls, and whether it contains a refusal."""
        self._ended = False
        self._copied: CopiedStream | None = None
        """The record of the copied frames; None while no frames are copied."""

    def write_all(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes to send for a batch. The upstream's frames are copied if possible."""
        source = source_of(batch)
        if source is not None and source.protocol == PROTOCOL and source.is_stream and source.is_exact:
            if self._copied is None and not self._head and not self._options.compaction:
                self._copied = CopiedStream(self._options)
            is_shown = self._options.completes_cut and _is_cut(batch[-1] if batch else None)
            if self._copied is not None and not is_shown and self._copied.may_copy(batch):
                written = self._copied.copy(batch, source)
                self.response = self._copied.response
                return written
        if self._copied is not None:
            self._continue(self._copied)
        return b"".join([self._run(kind, events) for kind, events in groupby(batch, type)])

    def write(self, event: Event) -> bytes:
        """Return the bytes to send for one event; empty if there is nothing to write."""
        return self.write_all((event,))

    def _run(self, kind: type, events: Iterable[Any]) -> bytes:
        """Write consecutive events of the same type."""
        if kind is PartDelta:
            return self._deltas([event.text for event in events if event.text])
        write = _WRITE.get(kind)
        return b"" if write is None or self._ended else b"".join([write(self, event) for event in events])

    def keep_alive(self) -> bytes:
        """Return bytes that keep an idle connection open.

        Some clients reset their timeout only when they receive an event. So the beginning of the response is written,
        or its status is repeated. In a copied stream, a comment is written instead, because an additional event would
        break the order of the sequence numbers.
        """
        options = self._options
        if self._ended or self._copied is not None:
            return KEEP_ALIVE
        if self._head:
            return self._event("response.in_progress", {"response": self._response("in_progress")})
        return self._open(options.response_id, options.model) if options.response_id and options.model else KEEP_ALIVE

    # ── The response ─────────────────────────────────────────────────────────────────────────────

    def _begin(self, started: Started) -> bytes:
        return b"" if self._head else self._open(self._options.response_id or started.id, started.model)

    def _open(self, response_id: str, model: str) -> bytes:
        self._id = response_id
        head = {"id": response_id, "object": "response", "created_at": self._options.created, "model": model}
        self._head = b"%b,%b," % (encode(head)[:-1], self._options.echo or DEFAULT_ECHO)
        response = {"response": self._response("in_progress")}
        return self._event("response.created", response) + self._event("response.in_progress", response)

    def _response(self, status: str, **fields: Any) -> Raw:
        state: Json = {
            "status": status,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        return Raw(self._head + encode({**state, **fields})[1:])

    def _event(self, kind: str, fields: Json) -> bytes:
        data = encode({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), one_line(data))

    def _continue(self, copied: CopiedStream) -> None:
        """Take over the state after copied frames, to write the remaining events of the answer."""
        self._copied = None
        self._sequence, self._items, self._count = copied.sequence, copied.items, copied.count
        self._usage, self._ended = copied.usage, copied.ended
        self._has_content, self._refused = copied.has_content, copied.refused
        self._head, self._id = copied.head, copied.id
        if copied.part is None:
            return
        before = copied.before[: copied.content_index]
        item = OpenItem(copied.item_id, copied.index, copied.part, copied.chunks, copied.content_index, before, True)
        if isinstance(copied.final, Text | Thinking | ToolCall):
            item.final, self._held = copied.final, item
        else:
            self._item = item
            self._around = self._delta_bytes(item)

    # ── Items ────────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: PartStart) -> bytes:
        part, written = event.part, self._release()
        self._item, self._around = None, _NOTHING
        if self._options.compaction or isinstance(part, Foreign):
            return written  # a foreign item is written when it ends
        item = OpenItem(self._new_id(part), self._count - 1, part)
        self._item = item
        if isinstance(part, ToolCall) and self._tool(part).kind in CLIENT_TOOLS:
            return written  # such a call has no deltas, and is written at its end
        self._around = self._delta_bytes(item)
        return written + self._added(item)

    def _new_id(self, part: Part) -> str:
        tool = self._tool(part) if isinstance(part, ToolCall) else None
        return self._item_id(prefix_of(part, tool))

    def _item_id(self, prefix: str) -> str:
        """Return an id for the next item, and count the item as begun."""
        self._count += 1
        return f"{prefix}{self._id.removeprefix('resp_')[:_ID_PART]}_{self._count - 1}"

    def _tool(self, call: ToolCall) -> OfferedTool:
        return split_name(call.name, self._options.tools, call.meta.get(PROTOCOL, {}).get("namespace"))

    def _added(self, item: OpenItem) -> bytes:
        part = item.part
        if isinstance(part, ToolCall):
            return self._item_event("added", item, tool_call_item(item.id, part, self._tool(part), "", "in_progress"))
        if isinstance(part, Thinking):
            return self._item_event("added", item, reasoning_item(item.id, None, encrypted=False))
        added = self._item_event("added", item, message_item(item.id, None, "in_progress"))
        empty = part if isinstance(part, Text) else _NO_TEXT
        self._refused = self._refused or empty.refusal
        return added + self._event("response.content_part.added", {**_place(item), "part": content_part(empty, "")})

    def _item_event(self, word: str, item: OpenItem, value: Json | Raw) -> bytes:
        return self._event(f"response.output_item.{word}", {"output_index": item.index, "item": value})

    def _delta_bytes(self, item: OpenItem) -> tuple[bytes, bytes, bytes]:
        """Return the value of `_around` for the deltas of this item."""
        part, after = item.part, b"}\n\n"
        place = _place(item)
        match part:
            case Text(refusal=False):
                kind, after = "response.output_text.delta", b',"logprobs":[]}\n\n'
            case Text():
                kind = "response.refusal.delta"
            case Thinking():
                kind, place = "response.reasoning_summary_text.delta", _summary_place(item)
            case ToolCall() if self._options.arguments == "incremental":
                kind, place = f"{_call_events(part)}.delta", _item_place(item)
            case _:
                return _NOTHING
        before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (kind.encode(), kind.encode())
        return before, b",%b" % encode({**place, "delta": ""})[1:-3], after

    def _deltas(self, texts: list[str]) -> bytes:
        """Write consecutive deltas of the open item."""
        item = self._item
        if item is None or not texts:
            return b""
        item.chunks += texts
        before, middle, after = self._around
        if not before:
            return b""
        opening = b"" if item.has_part or type(item.part) is not Thinking else self._open_summary(item)
        numbered = enumerate(texts, self._sequence)
        self._sequence += len(texts)
        return opening + b"".join(
            [b"%b%d%b%b%b" % (before, number, middle, encode(text), after) for number, text in numbered]
        )

    def _open_summary(self, item: OpenItem) -> bytes:
        item.has_part = True
        fields = {**_summary_place(item), "part": summary_part("")}
        return self._event("response.reasoning_summary_part.added", fields)

    # ── The ends of items ────────────────────────────────────────────────────────────────────────

    def _end(self, event: PartEnd) -> bytes:
        part, item = event.part, self._item
        self._item, self._around = None, _NOTHING
        if isinstance(part, Foreign):
            return self._foreign(part)
        if self._options.compaction and isinstance(part, Text):
            self._summary.append(part.text)
        if item is None or not isinstance(part, Text | Thinking | ToolCall):
            return b""
        item.final = part
        if isinstance(part, Thinking):
            return self._close_thinking(item, part)
        self._held = item
        if isinstance(part, Text):
            return self._close_text(item, part)
        return self._release() if not part.freeform and is_object(final_arguments(part)) else b""

    def _close_text(self, item: OpenItem, part: Text) -> bytes:
        """Write the events that end the text of a message. The event that ends the message itself is held."""
        self._has_content = True
        written = b""
        place = _place(item)
        whole = content_part(part, part.text)
        if part.refusal:
            done = self._event("response.refusal.done", {**place, "refusal": part.text})
        else:
            for position, annotation in enumerate(_annotations(part)):
                fields = {**place, "annotation_index": position, "annotation": annotation}
                written += self._event("response.output_text.annotation.added", fields)
            done = self._event("response.output_text.done", {**place, "text": part.text, "logprobs": []})
        return written + done + self._event("response.content_part.done", {**place, "part": whole})

    def _close_thinking(self, item: OpenItem, part: Thinking, status: str | None = None) -> bytes:
        earlier = "".join(decode_any(raw)["text"] + "\n\n" for raw in item.before)
        text, written = part.text.removeprefix(earlier), b""
        if text:
            written = b"" if item.has_part else self._open_summary(item)
            place = _summary_place(item)
            written += self._event("response.reasoning_summary_text.done", {**place, "text": text})
            written += self._event("response.reasoning_summary_part.done", {**place, "part": summary_part(text)})
        value = reasoning_item(item.id, part, self._options.encrypted, status)
        if item.before:
            value["summary"] = [*item.before, summary_part(text)]
        return written + self._done(item, value)

    def _done(self, item: OpenItem, value: Json | Raw) -> bytes:
        """Write the last event of an item. `value` is the JSON of the complete item."""
        self._items.append(value)
        return self._item_event("done", item, value)

    def _release(self, status: str = "completed") -> bytes:
        """Write the last event of the held item, if any. A call is written only if `status` is completed."""
        item, self._held = self._held, None
        if item is None:
            return b""
        part = item.final
        if isinstance(part, Text):
            value = message_item(item.id, part, status)
            value["content"] = [*item.before, *value["content"]]
            return self._done(item, value)
        if not isinstance(part, ToolCall):
            return b""
        self._has_content = True
        arguments, tool = final_arguments(part), self._tool(part)
        value = tool_call_item(item.id, part, tool, arguments, status)
        if status != "completed":
            self._items += [value] if self._options.keep_cut_calls else []
            return b""
        if value["type"] not in ("function_call", "custom_tool_call"):
            begun = {**value, "status": "in_progress"}
            return self._item_event("added", item, begun) + self._done(item, value)
        return self._close_arguments(item, part, tool.name, arguments) + self._done(item, value)

    def _close_arguments(self, item: OpenItem, call: ToolCall, name: str, arguments: str) -> bytes:
        """Write the event that ends the arguments, preceded by a delta with all arguments if no delta was written."""
        kind, place, written = _call_events(call), _item_place(item), b""
        if arguments and (not item.chunks or self._options.arguments == "buffered"):
            written = self._event(f"{kind}.delta", {**place, "delta": arguments})
        fields = {**place, "input": arguments} if call.freeform else {**place, "name": name, "arguments": arguments}
        return written + self._event(f"{kind}.done", fields)

    def _foreign(self, part: Foreign) -> bytes:
        """Write an item that only this protocol has. A part from another protocol is left out."""
        if part.protocol != PROTOCOL or (self._options.compaction and part.kind not in KINDS):
            return b""
        value = Raw(part.json.encode())
        self._count += 1
        item = OpenItem("", self._count - 1, part)
        return self._item_event("added", item, value) + self._done(item, value)

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _count_tokens(self, usage: Usage) -> bytes:
        self._usage = usage
        return b""

    def _finish(self, finished: Finished) -> bytes:
        if self._options.compaction:
            return self._finish_compaction()
        reason = "max_output_tokens" if finished.reason in _MAX_TOKENS else None
        written = b""
        if finished.reason is _REFUSAL and not self._refused:
            if self._has_content and not finished.detail:
                reason = "content_filter"
            else:
                written = self._refuse(finished.detail or "The model declined to answer.")
        if reason is None:
            return written + self._release() + self._end_response("completed")
        if self._options.completes_cut:
            return written + self._note_cut(_CUT_NOTES[reason]) + self._end_response("completed")
        written += self._release("incomplete")
        return written + self._end_response("incomplete", incomplete_details={"reason": reason})

    def _note_cut(self, text: str) -> bytes:
        """Write why the answer was cut off: as another part of the unfinished message, or else as a new message."""
        item = self._held
        if item is None or not isinstance(item.final, Text):
            return self._release("incomplete") + self._message(Text(text=text)) + self._release()
        item.before = [*item.before, content_part(item.final, item.final.text)]
        item.content_index += 1
        item.final = part = Text(text=f"\n\n{text}")
        place = _place(item)
        added = self._event("response.content_part.added", {**place, "part": content_part(_NO_TEXT, "")})
        delta = self._event("response.output_text.delta", {**place, "delta": part.text, "logprobs": []})
        return added + delta + self._close_text(item, part) + self._release()

    def _refuse(self, text: str) -> bytes:
        """Write a message for a refusal that the upstream reported only as its stop reason."""
        return self._message(Text(text=text, refusal=True))

    def _message(self, part: Text) -> bytes:
        """Write a message that the upstream did not send. Its last event is held."""
        start = self._start(PartStart(index=0, part=Text(refusal=part.refusal)))
        return start + self._deltas([part.text]) + self._end(PartEnd(index=0, part=part))

    def _finish_compaction(self) -> bytes:
        """End an answer that is a summary: write the summary as a compaction item, unless the upstream sent one."""
        text = "".join(self._summary).strip()
        if self._items:
            return self._end_response("completed")
        if not text:
            return self._fail(_NO_SUMMARY)
        value = compaction_item(self._item_id("cmp_"), text)
        item = OpenItem(value["id"], self._count - 1, _NO_TEXT)
        written = self._item_event("added", item, value) + self._done(item, value)
        return written + self._end_response("completed")

    def _fail(self, failed: Failed) -> bytes:
        """Write the failure. An open message or reasoning item is ended as incomplete; an open call is left out."""
        written = b"" if self._head else self._open(self._options.response_id, self._options.model)
        item, self._item = self._item, None
        if item is not None and isinstance(item.part, Text):
            part = Text(text="".join(item.chunks), refusal=item.part.refusal)
            item.final, self._held = part, item
            written += self._close_text(item, part)
        elif item is not None and isinstance(item.part, Thinking):
            written += self._close_thinking(item, Thinking(text="".join(item.chunks)), "incomplete")
        if self._held is not None and isinstance(self._held.final, ToolCall):
            self._held = None
        written += self._release("incomplete" if item is not None else "completed")
        return written + self._end_response("failed", error=failed_error(failed))

    def _end_response(self, status: str, **fields: Any) -> bytes:
        self._ended = True
        if status == "completed":
            now = self._options.now
            fields["completed_at"] = self._options.created if now is None else int(now())
        response = self._response(status, output=self._items, usage=usage_json(self._usage), **fields)
        self.response = bytes(response)
        return self._event(f"response.{status}", {"response": response})


_WRITE: dict[type, Callable[[ResponseWriter, Any], bytes]] = {
    Started: ResponseWriter._begin,
    PartStart: ResponseWriter._start,
    PartEnd: ResponseWriter._end,
    Usage: ResponseWriter._count_tokens,
    Finished: ResponseWriter._finish,
    Failed: ResponseWriter._fail,
}
"""The methods that write the events. PartDelta is not among them, because runs of deltas are written together."""


def _is_cut(event: Event | None) -> bool:
    return isinstance(event, Finished) and (event.reason in _MAX_TOKENS or event.reason is _REFUSAL)


def _item_place(item: OpenItem) -> Json:
    return {"item_id": item.id, "output_index": item.index}


def _place(item: OpenItem) -> Json:
    return {**_item_place(item), "content_index": item.content_index}


def _summary_place(item: OpenItem) -> Json:
    return {**_item_place(item), "summary_index": item.content_index}


def _call_events(call: ToolCall) -> str:
    return "response.custom_tool_call_input" if call.freeform else "response.function_call_arguments"


def _annotations(part: Text) -> list[Raw]:
    annotations = part.meta.get(PROTOCOL, {}).get("annotations")
    return [] if annotations is None else _LIST.decode(annotations)


# ── Whole answers ────────────────────────────────────────────────────────────────────────────────


def render(reply: Reply, options: Options = _DEFAULT) -> bytes:
    """Return the response body for a complete reply."""
    source = reply.source
    is_changed = options.compaction or (options.completes_cut and _is_cut(reply.finished))
    is_own = source is not None and source.protocol == PROTOCOL and not source.is_stream and not is_changed
    if source is not None and is_own and source.is_exact:
        return merged({"model": reply.model, **options.own}, source)
    body = _written(reply, options)
    return body if source is None or not is_own else completed(decode_any(body), source, _TRANSLATED)


def render_compaction(reply: Reply, options: Options, kept: Sequence[Raw] = ()) -> bytes:
    """Return the response body for `POST /responses/compact`: the items that replace the conversation.

    The items in `kept` come first, then the summary. Raise GatewayError if there is no summary.
    """
    response = decode_any(_written(reply, options))
    if response["error"]:
        raise GatewayError("upstream", response["error"]["message"])
    return encode(
        {
            "id": response["id"],
            "object": "response.compaction",
            "created_at": response["created_at"],
            "output": [*kept, *response["output"]],
            "usage": response["usage"],
        }
    )


def _written(reply: Reply, options: Options) -> bytes:
    writer = ResponseWriter(options)
    for event in unfold(reply):
        writer.write(event)
    return writer.response
