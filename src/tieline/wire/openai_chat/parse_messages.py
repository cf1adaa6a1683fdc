"""Parse a client's messages.

Tool results are separate messages in this protocol, but parts of one user message in `tieline.model`. A result without
a call id is matched to a call by the name of the tool or by order (see `match_results`).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tieline.model.content import (
    NO_META,
    STATE,
    Message,
    Meta,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    with_state,
)
from tieline.model.errors import BadRequest
from tieline.wire.openai_chat.parse_content import content_parts, result_parts
from tieline.wire.openai_chat.provider_state import state_in
from tieline.wire.openai_chat.schema import (
    MAX_ID,
    PROTOCOL,
    CallShape,
    FunctionShape,
    MessageShape,
    StandardMessage,
    ThinkingBlockShape,
)
from tieline.wire.shared.conversations import ConversationCache, grouped, parsed_weight
from tieline.wire.shared.fields import bad
from tieline.wire.shared.json import encode, is_object, parse
from tieline.wire.shared.results import match_results
from tieline.wire.shared.unsupported import AT, within

_MESSAGE = msgspec.json.Decoder(MessageShape)
_STANDARD: msgspec.json.Decoder[Any] = msgspec.json.Decoder(StandardMessage)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_NULL = Raw(b"null")
_BLOCKS = msgspec.json.Decoder(list[ThinkingBlockShape] | None)

_ROLES: dict[str | None, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
RESULT_ROLES = ("tool", "function")


class ParsedMessage(Struct, frozen=True):
    """One parsed message from the client. Consecutive tool results are later merged into one message."""

    message: Message
    """The message. For a tool result, a message that contains only this result."""
    result: ToolResult | None = None
    tool: str | None = None
    """The tool name in a result, if the client sent it. It helps to find the call if the call id is missing."""
    source: bytes | None = None
    """The JSON text of the message, if every upstream accepts it unchanged."""


class ChatMessagesParser:
    """Parses messages and adds them to `messages` in order. Messages parsed before are taken from the cache."""

    _calls: Sequence[Part] = ()
    """The parts of the last assistant message. The results that follow it belong to its calls."""
    _begun = False
    """Whether a message other than a system message has been parsed."""

    def __init__(self, cache: ConversationCache | None) -> None:
        self._cache = cache
        self.messages: list[Message] = []
        self.sources: list[bytes | None] = []
        """The JSON text of each message; see `RequestSource`."""
        self._results: list[ToolResult] = []
        """The results parsed so far for the calls in `_calls`."""
        self._consecutive: list[ParsedMessage] = []
        """Consecutive results, which will be merged into one message."""

    def parse(self, raws: Sequence[Raw]) -> None:
        """Parse all messages. If a field is invalid, raise BadRequest with its path."""
        for position, raw in enumerate(raws):
            self._add(self._parsed(bytes(raw), position))
        if self._consecutive:
            self._merge_results()

    def _parsed(self, text: bytes, position: int) -> ParsedMessage:
        cache, begun = self._cache, self._begun
        if cache is not None:
            known: ParsedMessage | None = cache.get((PROTOCOL, begun, text))
            if known is not None:
                return known
        try:
            shape = _MESSAGE.decode(text)
        except (ValueError, RecursionError):
            shape = parse(_MESSAGE, text, f"messages[{position}]")  # raises BadRequest with the path
        try:
            parsed, depends_on_position = _parse_message(shape, text, position, begun)
        except BadRequest as error:
            raise error.within(f"messages[{position}]") from error
        if cache is not None and not depends_on_position:
            cache.put((PROTOCOL, begun, text), parsed, parsed_weight(text))
        return parsed

    def _add(self, parsed: ParsedMessage) -> None:
        if parsed.result is not None:
            self._consecutive.append(parsed)
            self._begun = True
            return
        message = parsed.message
        if self._consecutive:
            self._merge_results()
        if message.role == "assistant":
            self._calls, self._results = message.parts, []
        if message.role != "system":
            self._begun = True
        self.messages.append(message)
        self.sources.append(parsed.source)

    def _merge_results(self) -> None:
        """Merge the results in `_consecutive` into one message, and clear `_consecutive`."""
        row, self._consecutive = self._consecutive, []
        results = [parsed.result for parsed in row if parsed.result is not None]
        self._results += results
        if len(row) == 1 and results[0].call_id:
            self.messages.append(row[0].message)
            self.sources.append(row[0].source)
            return
        if not all(result.call_id for result in results):
            results, self._calls = match_results(results, [parsed.tool for parsed in row], self._calls, self._results)
            self._results = []
            self.sources.append(None)
        else:
            texts = [parsed.source for parsed in row if parsed.source is not None]
            self.sources.append(b",".join(texts) if len(texts) == len(row) else None)
        self.messages.append(grouped(self._cache, PROTOCOL, "user", tuple(results)))


def _parse_message(shape: MessageShape, text: bytes, position: int, begun: bool) -> tuple[ParsedMessage, bool]:
    """Parse one message. Also return whether the parsed message depends on `position`, so that it cannot be cached.

    `text` is the JSON of the message; `begun` says whether a message other than a system message precedes it.
    """
    content = shape.content
    plain_text = (Text(text=content),) if content and isinstance(content, str) else None
    role = _ROLES.get(shape.role)
    if role is None:
        return _parse_result(shape, text, plain_text), False
    depends_on_position = False
    parts: Sequence[Part]
    if role == "assistant":
        parts = _assistant_parts(shape, position, plain_text)
        is_legacy = shape.function_call is not None  # sent as a tool call, like the function message that answers it
        depends_on_position = is_legacy or not all(call.id for call in shape.tool_calls or ())
        is_standard = bool(parts) and not is_legacy and _is_standard(shape, text) and all(map(_has_object, parts))
    elif plain_text is not None:
        parts = plain_text
        is_standard = _is_standard(shape, text, is_plain=shape.role != "developer")
    else:
        parts = content_parts(content)
        is_standard = bool(parts) and _is_standard(shape, text)
        if any(AT in part.meta for part in parts):
            parts = [within(part, f"messages[{position}]") for part in parts]
            depends_on_position = True
    in_place = role == "system" and begun
    meta = _meta(shape.name, in_place) if shape.name or in_place else NO_META
    if shape.reasoning_details or shape.thinking_blocks or shape.extra_content:
        meta = with_state(meta, state_in(shape))
    message = Message(role=role, parts=tuple(parts), meta=meta)
    return ParsedMessage(message, source=text if is_standard else None), depends_on_position


def _parse_result(shape: MessageShape, text: bytes, plain_text: tuple[Text] | None) -> ParsedMessage:
    if shape.role not in RESULT_ROLES:
        got = "nothing" if shape.role is None else f"'{shape.role}'"
        raise bad("role", f"one of system, developer, user, assistant, tool, got {got}")
    result = ToolResult(call_id=shape.tool_call_id or "", content=plain_text or result_parts(shape.content))
    message = Message(role="user", parts=(result,))
    is_plain = plain_text is not None and shape.role == "tool" and 0 < len(result.call_id) <= MAX_ID
    return ParsedMessage(message, result, shape.name, text if _is_standard(shape, text, is_plain) else None)


def _is_standard(shape: MessageShape, text: bytes, is_plain: bool = False) -> bool:
    """Return whether every upstream accepts the JSON text of a message unchanged, because it follows the spec.

    Some upstreams reject thinking and null. (Some clients send null for every unused field.) `is_plain` says that the
    rest of the message is known to follow the spec, so that it is not checked.
    """
    if shape.reasoning is not None or shape.reasoning_content is not None:
        return False
    try:
        if not is_plain:
            _STANDARD.decode(text)
        return text.find(b"null") < 0 or not _has_null(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _has_object(part: Part) -> bool:
    """Return whether the arguments of a call are an object; true for other parts."""
    return type(part) is not ToolCall or is_object(part.arguments)


def _has_null(text: bytes) -> bool:
    """Return whether a field of a message other than `content` is null."""
    return any(value == _NULL for name, value in _FIELDS.decode(text).items() if name != "content")


def _meta(name: str | None, in_place: bool) -> Meta:
    own: dict[str, object] = {}
    if in_place:
        own["in_place"] = True
    if name:
        own["name"] = name
    return {PROTOCOL: own}


def _assistant_parts(shape: MessageShape, position: int, plain_text: Sequence[Part] | None) -> Sequence[Part]:
    """Return the parts of an assistant message. `plain_text` is its parsed content if that is a string."""
    parts: list[Part] = []
    if shape.thinking_blocks:
        parts += map(_thinking, parse(_BLOCKS, shape.thinking_blocks, "thinking_blocks") or ())
    elif shape.reasoning_content:
        parts.append(Thinking(text=shape.reasoning_content))
    elif shape.reasoning and isinstance(shape.reasoning, str):
        parts.append(Thinking(text=shape.reasoning))
    if shape.content is not None:
        parts += plain_text or content_parts(shape.content)
    if shape.refusal:
        parts.append(Text(text=shape.refusal, refusal=True))
    for number, call in enumerate(shape.tool_calls or ()):
        try:
            parts.append(_call(call, position, number))
        except BadRequest as error:
            raise error.within(f"tool_calls[{number}]") from error
    if shape.function_call is not None:
        parts.append(_function(shape.function_call, f"call_{position}_legacy", "function_call"))
    return parts


def _thinking(block: ThinkingBlockShape) -> Thinking:
    if block.type == "redacted_thinking":
        return Thinking(redacted=True, signature=block.data)
    return Thinking(text=block.thinking or "", signature=block.signature)


def _call(call: CallShape, position: int, number: int) -> ToolCall:
    parsed = _bare_call(call, call.id or f"call_{position}_{number}")
    state = state_in(call) if call.extra_content else None
    return replace(parsed, meta={STATE: state}) if state else parsed


def _bare_call(call: CallShape, call_id: str) -> ToolCall:
    function, custom = call.function, call.custom
    if function is not None and (function.name or custom is None or not custom.name):
        if function.name and function.arguments and isinstance(function.arguments, str):
            return ToolCall(id=call_id, name=function.name, arguments=function.arguments)
        return _function(function, call_id, "function")
    if custom is None:
        raise bad("function", "an object with name and arguments")
    if not custom.name:
        raise bad("custom.name", "the name of a tool")
    return ToolCall(id=call_id, name=custom.name, arguments=custom.input or "", freeform=True)


def _function(function: FunctionShape, call_id: str, at: str) -> ToolCall:
    if not function.name:
        raise bad(f"{at}.name", "the name of a tool")
    arguments = function.arguments
    if not arguments:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = encode(arguments).decode()
    return ToolCall(id=call_id, name=function.name, arguments=arguments)
