"""A client's messages, read into the model.

Results of calls come as messages of their own here, and are parts of one user message in the model. A result that does
not say which call it answers is matched by name or by order, where that leaves no doubt.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tieline.model.content import NO_META, Message, Meta, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.wire.json import encode
from tieline.wire.openai_chat.parts import bad, content_parts, result_parts
from tieline.wire.openai_chat.schema import PROTOCOL, CallShape, FunctionShape, MessageShape, ThinkingBlock


def parse_messages(shapes: Sequence[MessageShape]) -> tuple[Message, ...]:
    """All messages, in the model's words; a mistake raises BadRequest with its path."""
    history = _History()
    for position, shape in enumerate(shapes):
        try:
            history.add(position, shape)
        except BadRequest as error:
            raise error.within(f"messages[{position}]") from error
    history.end_results()
    return tuple(history.messages)


class _History:
    """The messages so far, the results that are being gathered, and the calls that lack one."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._results: list[tuple[ToolResult, str | None]] = []
        self._open: list[ToolCall] = []
        self._begun = False

    def add(self, position: int, shape: MessageShape) -> None:
        role = shape.role
        if role in ("tool", "function"):
            result = ToolResult(call_id=shape.tool_call_id or "", content=result_parts(shape.content))
            self._results.append((result, shape.name))
            self._begun = True
            return
        self.end_results()
        if role == "assistant":
            parts = _assistant_parts(shape, position)
            self._open = [part for part in parts if isinstance(part, ToolCall)]
            self._append(Message(role="assistant", parts=tuple(parts), meta=_meta(shape)))
        elif role == "user":
            parts = content_parts(shape.content)
            self._append(Message(role="user", parts=tuple(parts), meta=_meta(shape)))
        elif role in ("system", "developer"):
            parts = content_parts(shape.content)
            self.messages.append(Message(role="system", parts=tuple(parts), meta=_meta(shape, in_place=self._begun)))
        else:
            got = "nothing" if role is None else f"'{role}'"
            raise bad("role", f"one of system, developer, user, assistant, tool, got {got}")

    def end_results(self) -> None:
        """Results that stand in a row are one message."""
        if self._results:
            given = {result.call_id for result, _ in self._results}
            self._open = [call for call in self._open if call.id not in given]
            results = self._matched() if "" in given else [result for result, _ in self._results]
            self.messages.append(Message(role="user", parts=tuple(results)))
            self._results = []

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self._begun = True

    def _matched(self) -> list[ToolResult]:
        lacking = sum(not result.call_id for result, _ in self._results)
        by_order = lacking == len(self._open)
        return [result if result.call_id else self._match(result, name, by_order) for result, name in self._results]

    def _match(self, result: ToolResult, name: str | None, by_order: bool) -> ToolResult:
        close = [call for call in self._open if call.name == name] or (self._open if by_order else [])
        if not close:
            return result
        call = close[0]
        self._open.remove(call)
        return replace(result, call_id=call.id)


def _meta(shape: MessageShape, in_place: bool = False) -> Meta:
    own: dict[str, object] = {}
    if in_place:
        own["in_place"] = True
    if shape.name:
        own["name"] = shape.name
    return {PROTOCOL: own} if own else NO_META


def _assistant_parts(shape: MessageShape, position: int) -> list[Part]:
    parts: list[Part] = []
    if shape.thinking_blocks:
        parts += map(_thinking, shape.thinking_blocks)
    elif shape.reasoning_content:
        parts.append(Thinking(text=shape.reasoning_content))
    elif shape.reasoning and isinstance(shape.reasoning, str):
        parts.append(Thinking(text=shape.reasoning))
    parts += content_parts(shape.content)
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
    call_id = call.id or f"call_{position}_{number}"
    if call.function is not None:
        return _function(call.function, call_id, "function")
    if call.custom is None:
        raise bad("function", "an object with name and arguments")
    if not call.custom.name:
        raise bad("custom.name", "the name of a tool")
    return ToolCall(id=call_id, name=call.custom.name, arguments=call.custom.input or "", freeform=True)


def _function(function: FunctionShape, call_id: str, at: str) -> ToolCall:
    if not function.name:
        raise bad(f"{at}.name", "the name of a tool")
    arguments = function.arguments
    if not arguments:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = encode(arguments).decode()
    return ToolCall(id=call_id, name=function.name, arguments=arguments)
