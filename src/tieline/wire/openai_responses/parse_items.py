"""Parse the items of a client's input.

Messages, reasoning, calls and outputs are separate items in this protocol. In `tieline.model`, consecutive
assistant items are one message, and consecutive outputs are the parts of one user message. An output without a call id
is matched to a call by the name of the tool or by order (see `match_results`).
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.content import NO_META, Foreign, Message, Meta, Part, Role, Text, ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.request import ToolSpec
from tieline.wire.openai_responses.client_tools import CALLS, CLIENT_TOOLS, OUTPUTS, arguments_of, output_text
from tieline.wire.openai_responses.compaction import KINDS, TRIGGER, is_trigger, opened
from tieline.wire.openai_responses.names import flat_name, namespace_of
from tieline.wire.openai_responses.parse_content import content_parts, output_parts
from tieline.wire.openai_responses.parse_tools import read_tools
from tieline.wire.openai_responses.reasoning import is_envelope, read_thinking
from tieline.wire.openai_responses.schema import PROTOCOL, ItemShape, SummaryShape
from tieline.wire.shared.conversations import ConversationCache, grouped, parsed_weight
from tieline.wire.shared.fields import bad
from tieline.wire.shared.json import encode, parse
from tieline.wire.shared.results import match_results
from tieline.wire.shared.unsupported import AT, within

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_ITEM = msgspec.json.Decoder(ItemShape)
_TEXTS = msgspec.json.Decoder(list[SummaryShape])
_ROLES: dict[str | None, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

Side = Literal["system", "user", "assistant", "result"]


class ParsedItem(NamedTuple):
    """One parsed item. `side` is the role of the message to which it will belong, or `result` for a tool's output."""

    side: Side
    parts: tuple[Part, ...]
    meta: Meta = NO_META
    """The `meta` of the message, if the item becomes a message of its own."""
    tool: str | None = None
    """The tool name in a result, if the client sent it. It helps to find the call if the call id is missing."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the item defines."""
    source: bytes | None = None
    """The JSON text of the item, if an upstream that uses this protocol accepts it unchanged."""
    message: Message | None = None
    """A message that contains only this item. It is used if the item is not merged with others."""


class ItemsParser:
    """Parses items into messages and adds them to `messages`. Items parsed before are taken from the cache."""

    def __init__(self, cache: ConversationCache | None) -> None:
        self._cache = cache
        self.messages: list[Message] = []
        self.sources: list[bytes | None] = []
        """The JSON text of each message; see `RequestSource`."""
        self.tools: list[ToolSpec] = []
        """The tools that items define, in addition to the tools of the request."""
        self._calls: Sequence[Part] = ()
        """The parts of the last assistant message. The results that follow it belong to its calls."""
        self._results: list[ToolResult] = []
        """The results parsed so far for the calls in `_calls`."""
        self._row: list[ParsedItem] = []
        """The items of the next message: consecutive assistant items, consecutive results, or one other item."""

    def add_system(self, messages: Sequence[Message]) -> None:
        """Add system messages that the client sent outside `input`."""
        self.messages += messages
        self.sources += [None] * len(messages)

    def parse(self, known: Sequence[bytes], new: Sequence[Raw]) -> None:
        """Parse all items, first the known ones. If a field is invalid, raise BadRequest with its path."""
        last = len(known) + len(new) - 1
        for position, text in enumerate(chain(known, map(bytes, new))):
            parsed = self._parsed(text, position)
            self.tools += parsed.tools
            if self._row and (self._row[0].side != parsed.side or parsed.side not in ("assistant", "result")):
                self._end_row()
            self._row.append(parsed)
            if is_trigger(parsed.message) and position < last:
                raise bad(f"input[{position}]", "`compaction_trigger` to be the last item")
        self._end_row()

    def has_answer(self, items: Sequence[Raw]) -> bool:
        """Return whether any of these valid items belongs to an assistant message."""
        return any(self._parsed(bytes(item), 0).side == "assistant" for item in items)

    def _parsed(self, text: bytes, position: int) -> ParsedItem:
        cache, key = self._cache, (PROTOCOL, text)
        if cache is not None:
            known: ParsedItem | None = cache.get(key)
            if known is not None:
                return known
        at = f"input[{position}]"
        shape = parse(_ITEM, text, at)
        kind = _kind(shape, at)
        try:
            parsed = _READ.get(kind, _other)(shape, kind, text)
        except BadRequest as error:
            raise error.within(at) from error
        parsed, depends_on_position = _placed(parsed, position)
        role: Role = "user" if parsed.side == "result" else parsed.side
        parsed = parsed._replace(message=Message(role=role, parts=parsed.parts, meta=parsed.meta))
        if cache is not None and not depends_on_position:
            cache.put(key, parsed, parsed_weight(text))
        return parsed

    def _end_row(self) -> None:
        """Merge the items in `_row` into one message, and clear `_row`."""
        row, self._row = self._row, []
        side, parts, source, message = row[0].side, row[0].parts, row[0].source, row[0].message
        if len(row) > 1:
            parts, message = tuple(part for parsed in row for part in parsed.parts), None
            texts = [parsed.source for parsed in row if parsed.source is not None]
            source = b",".join(texts) if len(texts) == len(row) else None
        if side == "assistant":
            self._calls, self._results = parts, []
        elif side == "result":
            results = [part for part in parts if isinstance(part, ToolResult)]
            self._results += results
            if not all(result.call_id for result in results):
                tools = [parsed.tool for parsed in row]
                results, self._calls = match_results(results, tools, self._calls, self._results)
                self._results, source, message = [], None, None
            parts = tuple(results)
        role: Role = "assistant" if side == "assistant" else "user"
        self.messages.append(message or grouped(self._cache, PROTOCOL, role, parts))
        self.sources.append(source)


def _kind(shape: ItemShape, at: str) -> str:
    """Return the type of an item, inferred from its other fields if the client omitted it."""
    if shape.type:
        kind = shape.type
    elif shape.role:
        kind = "message"
    elif shape.call_id and shape.name:
        kind = "function_call"
    elif shape.call_id:
        kind = "function_call_output"
    elif shape.id:
        kind = "item_reference"
    else:
        raise bad(f"{at}.type", "the type of an item, or a `role`")
    if kind == "item_reference":
        # The caller may replace the references with stored items, and parse the request again.
        raise GatewayError("not_found", f"Item with id '{shape.id}' not found.", param=f"{at}.id")
    return kind


def _placed(parsed: ParsedItem, position: int) -> tuple[ParsedItem, bool]:
    """Return the item with the paths and call ids that depend on its position in the input.

    Also return whether it has any. If so, it cannot be cached.
    """
    parts = [_placed_part(part, position) for part in parsed.parts]
    is_same = all(new is old for new, old in zip(parts, parsed.parts, strict=True))
    return (parsed, False) if is_same else (parsed._replace(parts=tuple(parts)), True)


def _placed_part(part: Part, position: int) -> Part:
    if isinstance(part, ToolCall) and not part.id:
        return replace(part, id=f"call_{position}")
    return within(part, f"input[{position}]") if AT in part.meta else part


# ── One function per type of item ────────────────────────────────────────────────────────────────


def _message(shape: ItemShape, _kind: str, text: bytes) -> ParsedItem:
    role = _ROLES.get(shape.role)
    if role is None:
        got = "nothing" if shape.role is None else f"'{shape.role}'"
        raise bad("role", f"one of system, developer, user, assistant, got {got}")
    meta = _meta(shape, phase=shape.phase)
    if role == "assistant":
        parts = content_parts(shape.content, meta)
        return ParsedItem(role, tuple(parts), source=text)
    return ParsedItem(role, tuple(content_parts(shape.content)), meta, source=text)


def _reasoning(shape: ItemShape, _kind: str, text: bytes) -> ParsedItem:
    texts = [part.text for part in shape.summary or () if part.text]
    if not texts and isinstance(shape.content, list):
        listed = parse(_TEXTS, encode(shape.content), "content")
        texts = [part.text for part in listed if part.text]
    thinking = read_thinking(shape.id, shape.encrypted_content, texts)
    return ParsedItem("assistant", (thinking,), source=None if is_envelope(shape.encrypted_content) else text)


def _function_call(shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    if not shape.name:
        raise bad("name", "the name of a tool")
    freeform = kind == "custom_tool_call"
    given = shape.input if freeform else shape.arguments
    arguments = given if isinstance(given, str) else "" if given is None else encode(given).decode()
    namespace = namespace_of(shape.namespace)
    call = ToolCall(
        id=shape.call_id or shape.id or "",
        name=flat_name(namespace, shape.name),
        arguments=arguments if arguments or freeform else "{}",
        freeform=freeform,
        meta=_meta(shape, namespace=namespace),
    )
    return ParsedItem("assistant", (call,), source=text if shape.call_id else None)


def _function_output(shape: ItemShape, _kind: str, text: bytes) -> ParsedItem:
    is_error = shape.status in ("incomplete", "failed")
    content = output_parts(shape.output)
    result = ToolResult(call_id=shape.call_id or "", content=content, is_error=is_error, meta=_meta(shape))
    tool = flat_name(shape.namespace, shape.name) if shape.name else None
    return ParsedItem("result", (result,), tool=tool, source=text)


def _client_call(shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    """Parse a call to a tool that OpenAI defines and the client runs (see `client_tools`)."""
    tool = CALLS[kind]
    if tool == "tool_search" and shape.execution == "server":
        return _other(shape, kind, text)
    fields = getattr(shape, CLIENT_TOOLS[tool].field)
    if fields is None:
        raise bad(CLIENT_TOOLS[tool].field, "an object")
    arguments = arguments_of(tool, parse(_ANY, encode(fields), CLIENT_TOOLS[tool].field))
    call = ToolCall(id=shape.call_id or shape.id or "", name=tool, arguments=arguments, meta=_meta(shape, type=kind))
    return ParsedItem("assistant", (call,), source=text)


def _client_output(shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    """Parse the output of a tool that OpenAI defines and the client runs.

    The output of a tool search also defines tools.
    """
    tool = OUTPUTS[kind]
    added = read_tools(shape.tools, "tools", inline=True) if shape.tools else ()
    if tool == "tool_search" and shape.execution == "server":
        return _other(shape, kind, text)._replace(tools=added)
    words, is_error = output_text(tool, parse(_ANY, text))
    result = ToolResult(
        call_id=shape.call_id or shape.id or "",
        content=(Text(text=words),) if words else (),
        is_error=is_error,
        meta={PROTOCOL: {"type": kind, "item": text.decode()}},
    )
    return ParsedItem("result", (result,), tool=tool, tools=added, source=text)


def _additional_tools(shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    added = read_tools(shape.tools, "tools", inline=True) if shape.tools else ()
    part = Foreign(protocol=PROTOCOL, kind=kind, json=text.decode())
    return ParsedItem("system", (part,), tools=added, source=text)


def _compaction(shape: ItemShape, _kind: str, text: bytes) -> ParsedItem:
    summary = opened(shape.encrypted_content)
    if summary is not None:
        return ParsedItem("user", (summary,))
    return _other(shape, "compaction", text)


def _trigger(_shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    return ParsedItem("user", (Foreign(protocol=PROTOCOL, kind=kind, json=text.decode()),), source=text)


def _agent_message(shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    """Parse a message between agents. It becomes a text that any model can read, unless it is encrypted."""
    parts = [part for part in content_parts(shape.content) if isinstance(part, Text)]
    if not parts:
        return _other(shape, kind, text)
    words = "\n\n".join(part.text for part in parts)
    said = Text(text=f"Message from {shape.author or 'an agent'} to {shape.recipient or 'you'}:\n\n{words}")
    return ParsedItem("user", (said,), {PROTOCOL: {"item": text.decode()}}, source=text)


def _other(_shape: ItemShape, kind: str, text: bytes) -> ParsedItem:
    """Keep the JSON of an item that only this protocol has.

    It becomes a part of an assistant message. The builders of other protocols leave it out.
    """
    return ParsedItem("assistant", (Foreign(protocol=PROTOCOL, kind=kind, json=text.decode()),), source=text)


_READ: dict[str, Callable[[ItemShape, str, bytes], ParsedItem]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _function_call,
    "function_call_output": _function_output,
    "custom_tool_call_output": _function_output,
    **dict.fromkeys(CALLS, _client_call),
    **dict.fromkeys(OUTPUTS, _client_output),
    "additional_tools": _additional_tools,
    **dict.fromkeys(KINDS, _compaction),
    TRIGGER: _trigger,
    "agent_message": _agent_message,
}


def _meta(shape: ItemShape, **fields: Any) -> Meta:
    """Return the `meta` of an item: its id, and the members of `fields` that are not empty."""
    own = {name: value for name, value in {"id": shape.id, **fields}.items() if value}
    return {PROTOCOL: own} if own else NO_META
