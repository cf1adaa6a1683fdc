"""A client's messages, read into the model.

Results of calls come as messages of their own here, and are parts of one user message in the model. A result that does
not say which call it answers is matched by name or by order, where that leaves no doubt.
"""

from collections.abc import Sequence

import msgspec
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
from tieline.wire.openai_chat.parse_content import bad, content_parts, result_parts
from tieline.wire.openai_chat.provider_state import state_in
from tieline.wire.openai_chat.schema import (
    PROTOCOL,
    CallShape,
    FunctionShape,
    MessageShape,
    ThinkingBlock,
    WordsShape,
)
from tieline.wire.shared.json import encode, parse
from tieline.wire.shared.unsupported import within

_BLOCKS = msgspec.json.Decoder(list[ThinkingBlock] | None)

_ROLES: dict[str | None, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
RESULT_ROLES = ("tool", "function")


class Reader:
    """Reads messages in their order: knows the calls that lack a result, and the results that are being gathered."""

    _asked: Sequence[Part] = ()
    """The parts of the last assistant message, with the calls that `_given` answer."""
    _begun = False
    _position = 0
    ends_with_result = False

    def __init__(self) -> None:
        self._new: list[Message] = []
        self._given: list[ToolResult] = []
        self._results: list[ToolResult] = []
        self._lacking: dict[int, str | None] = {}
        """Which of these results do not say what they answer, with the name of the tool."""

    def next(self) -> "Reader":
        """One that goes on behind the last message of this one, which stays as it is."""
        reader = Reader()
        reader._asked, reader._given = self._asked, self._given.copy()
        reader._begun, reader._position = self._begun, self._position
        return reader

    def read(self, shapes: Sequence[MessageShape]) -> tuple[Message, ...]:
        """These messages, in the model's words; a mistake raises BadRequest with its path."""
        position = self._position
        for shape in shapes:
            try:
                self._add(position, shape)
            except BadRequest as error:
                raise error.within(f"messages[{position}]") from error
            position += 1
        self._position = position
        if self._results:
            self._end_results()
            self.ends_with_result = True
        messages, self._new = tuple(self._new), []
        return messages

    def _add(self, position: int, shape: MessageShape) -> None:
        content = shape.content
        words = (Text(text=content),) if content and isinstance(content, str) else None
        role = _ROLES.get(shape.role)
        if role is None:
            self._add_result(shape, words)
            return
        if self._results:
            self._end_results()
        if role == "assistant":
            parts = self._asked = _assistant_parts(shape, position, words)
            self._given = []
        else:
            parts = words or [within(part, f"messages[{position}]") for part in content_parts(content)]
        in_place = role == "system" and self._begun
        meta = _meta(shape.name, in_place) if shape.name or in_place else NO_META
        if shape.reasoning_details or shape.thinking_blocks or shape.extra_content:
            meta = with_state(meta, state_in(shape))
        self._new.append(Message(role=role, parts=tuple(parts), meta=meta))
        self._begun = self._begun or role != "system"

    def _add_result(self, shape: MessageShape, words: tuple[Text] | None) -> None:
        if shape.role not in RESULT_ROLES:
            got = "nothing" if shape.role is None else f"'{shape.role}'"
            raise bad("role", f"one of system, developer, user, assistant, tool, got {got}")
        if not shape.tool_call_id:
            self._lacking[len(self._results)] = shape.name
        content = words or result_parts(shape.content)
        self._results.append(ToolResult(call_id=shape.tool_call_id or "", content=content))
        self._begun = True

    def _end_results(self) -> None:
        """Results that stand in a row are one message."""
        self._given += self._results
        if self._lacking:
            self._match_lacking()
        self._new.append(Message(role="user", parts=tuple(self._results)))
        self._results = []

    def _match_lacking(self) -> None:
        given = {result.call_id for result in self._given}
        unanswered = [part for part in self._asked if isinstance(part, ToolCall) and part.id not in given]
        by_order = len(self._lacking) == len(unanswered)
        for at, name in self._lacking.items():
            close = [call for call in unanswered if call.name == name] or (unanswered if by_order else [])
            if close:
                call = close[0]
                unanswered.remove(call)
                self._results[at] = replace(self._results[at], call_id=call.id)
        self._asked, self._given, self._lacking = unanswered, [], {}


def read_words(shapes: Sequence[WordsShape]) -> tuple[Message, ...] | None:
    """Messages of nothing but words; None if a system message is not the first: what that means is for a Reader."""
    messages: list[Message] = []
    for shape in shapes:
        role = shape.role
        if role == "system" and messages:
            return None
        messages.append(Message(role=role, parts=(Text(text=shape.content),)))
    return tuple(messages)


def _meta(name: str | None, in_place: bool) -> Meta:
    own: dict[str, object] = {}
    if in_place:
        own["in_place"] = True
    if name:
        own["name"] = name
    return {PROTOCOL: own}


def _assistant_parts(shape: MessageShape, position: int, words: Sequence[Part] | None) -> Sequence[Part]:
    """What the model said; `words` are its content, if that is only text."""
    parts: list[Part] = []
    if shape.thinking_blocks:
        parts += map(_thinking, parse(_BLOCKS, shape.thinking_blocks, "thinking_blocks") or ())
    elif shape.reasoning_content:
        parts.append(Thinking(text=shape.reasoning_content))
    elif shape.reasoning and isinstance(shape.reasoning, str):
        parts.append(Thinking(text=shape.reasoning))
    if shape.content is not None:
        parts += words or content_parts(shape.content)
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


def _thinking(block: ThinkingBlock) -> Thinking:
    if block.type == "redacted_thinking":
        return Thinking(redacted=True, signature=block.data)
    return Thinking(text=block.thinking or "", signature=block.signature)


def _call(call: CallShape, position: int, number: int) -> ToolCall:
    made = _bare_call(call, call.id or f"call_{position}_{number}")
    state = state_in(call) if call.extra_content else None
    return replace(made, meta={STATE: state}) if state else made


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
