"""Connects the demo model to the simulated service: its text is sent as updates, its tool calls as exec requests."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, get_args

from tieline.demo.decision import decide
from tieline.demo.reply_events import to_events
from tieline.demo.reply_steps import Silence
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Failed, PartDelta, PartEnd, PartStart, Usage
from tieline.model.request import Effort, Reasoning, Request, ToolSpec
from tieline.sim.cursor import native_tools
from tieline.sim.cursor.mcp_tools import McpToolset
from tieline.sim.cursor.refusals import OF_KIND, RunRefused, ServiceRefusal
from tieline.sim.cursor.server_run import ServerRun, update
from tieline.sim.cursor.settings import SimModel
from tieline.sim.cursor.steps import Routine, Send, Steps, Wait
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb import tool_calls_pb2 as shown
from tieline.wire.cursor._pb import updates_pb2 as updates

BATCH = 4
"""Number of deltas between two pauses, if the setting `pace` is not zero."""

SHORT = 20
"""Maximum length of text deltas that are cached in serialized form."""

_ONE_TOKEN = update(token_delta=updates.TokenDeltaUpdate(tokens=1))


class DemoLeg(NamedTuple):
    """The output of the demo model in one leg, and its usage."""

    parts: tuple[Part, ...]
    usage: Usage

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the leg."""
        return [part for part in self.parts if isinstance(part, ToolCall)]


class DemoModel:
    """The demo model in one run."""

    def __init__(self, run: ServerRun, model: SimModel, mcp_tools: McpToolset, system: str) -> None:
        self._run = run
        self._model = model
        self._mcp_tools = mcp_tools
        self._system = system

    def leg(self, messages: Sequence[Message]) -> Routine[DemoLeg]:
        """Yield updates with the answer to `messages`, then return the answer. Raise RunRefused if the model fails."""
        request = self._request(messages)
        writer = _UpdateWriter(self)
        count = 0
        for event in to_events(decide(request), request):
            if isinstance(event, Silence):
                yield Wait(until=lambda: False, seconds=event.seconds)
                continue
            yield from writer.write(event)
            count += isinstance(event, PartDelta)
            if self._run.settings.pace and count and not count % BATCH:
                yield Wait(until=lambda: False, seconds=self._run.settings.pace)
        return DemoLeg(tuple(writer.parts), writer.usage)

    def display(self, call: ToolCall) -> shown.ToolCall:
        """Return the description of a tool call for clients to display."""
        if self._is_native(call):
            return native_tools.display(call)
        return shown.ToolCall(mcp_tool_call=shown.McpToolCall(args=self._mcp_tools.args(call)))

    def perform(self, call: ToolCall) -> Routine[ToolResult]:
        """Let the client run a tool call, and return the result."""
        if self._is_native(call):
            return native_tools.perform(self._run, call)
        message = exec_pb2.ExecServerMessage(mcp_args=self._mcp_tools.args(call))
        return native_tools.execute(self._run, call.id, message)

    def completed(self, call: ToolCall, result: ToolResult) -> Send:
        """Return the update that reports a completed tool call with its result."""
        record = self.display(call)
        if record.HasField("mcp_tool_call"):
            success = record.mcp_tool_call.result.success
            success.is_error = result.is_error
            for part in result.content:
                if isinstance(part, Text):
                    success.content.add().text.text = part.text
        return update(tool_call_completed=updates.ToolCallCompletedUpdate(call_id=call.id, tool_call=record))

    def _is_native(self, call: ToolCall) -> bool:
        return call.name not in self._mcp_tools and call.name in self._run.native

    def _request(self, messages: Sequence[Message]) -> Request:
        system = (Message(role="system", parts=(Text(text=self._system),)),) if self._system else ()
        return Request(
            model=self._model.id,
            messages=(*system, *(_renamed(message, self._mcp_tools) for message in messages)),
            tools=self._tools(),
            reasoning=self._reasoning(),
        )

    def _tools(self) -> tuple[ToolSpec, ...]:
        offered = self._mcp_tools.specs
        return (
            *offered,
            *(spec for spec in native_tools.specs() if spec.name in self._run.native and spec not in offered),
        )

    def _reasoning(self) -> Reasoning:
        given = _parameters(self._run)
        effort = given.get("effort") or given.get("reasoning")
        thinks = given.get("thinking", "true" if self._model.thinks else "")
        return Reasoning(
            mode={"true": "adaptive", "false": "off"}.get(thinks),  # type: ignore[arg-type]  # only these two
            effort=effort if effort in get_args(Effort) else None,  # type: ignore[arg-type]  # just checked
        )


def text_delta(text: str) -> Send:
    """Return an update with a piece of the answer's text."""
    if len(text) <= SHORT:
        return _word(text)
    return update(text_delta=updates.TextDeltaUpdate(text=text))


def thinking_delta(text: str) -> Send:
    """Return an update with a piece of the model's thinking."""
    return update(thinking_delta=updates.ThinkingDeltaUpdate(text=text))


@lru_cache(maxsize=4096)
def _word(text: str) -> Send:
    """Return an update with a short text. Updates are cached, because words repeat often."""
    return update(text_delta=updates.TextDeltaUpdate(text=text))


class _UpdateWriter:
    """Turns the events of a leg into updates, and collects the parts and the usage of the leg."""

    def __init__(self, model: DemoModel) -> None:
        self.parts: list[Part] = []
        self.usage = Usage()
        self._model = model
        self._part: Part = Text()
        self._arguments = ""

    def write(self, event: object) -> Steps:
        match event:
            case PartDelta():
                yield from self._more(event.text)
            case PartStart():
                self._part, self._arguments = event.part, ""
                yield from self._more("")
            case PartEnd():
                self.parts.append(event.part)
                yield from self._whole(event.part)
            case Usage():
                self.usage = event
            case Failed():
                raise RunRefused(ServiceRefusal(code=OF_KIND[event.kind], message=event.message))
            case _:
                # The protocol has no message for the start of a leg or for its stop reason.
                pass

    def _more(self, text: str) -> Steps:
        match self._part:
            case ToolCall() as call:
                self._arguments += text
                record = self._model.display(call)
                # Despite its name, the field contains all arguments so far, as in the real service.
                partial = updates.PartialToolCallUpdate(
                    call_id=call.id, tool_call=record, args_text_delta=self._arguments
                )
                yield update(partial_tool_call=partial)
            case Thinking() if text:
                yield thinking_delta(text)
            case Text() if text:
                yield text_delta(text)
                yield _ONE_TOKEN
            case _:
                pass

    def _whole(self, part: Part) -> Steps:
        match part:
            case ToolCall():
                started = updates.ToolCallStartedUpdate(call_id=part.id, tool_call=self._model.display(part))
                yield update(tool_call_started=started)
            case Thinking():
                yield update(thinking_completed=updates.ThinkingCompletedUpdate(thinking_duration_ms=1))
            case _:
                pass


def _renamed(message: Message, mcp_tools: McpToolset) -> Message:
    """Return the message with its tool names replaced by the short names that the model uses."""
    if not any(isinstance(part, ToolCall) for part in message.parts):
        return message
    parts = (
        ToolCall(id=part.id, name=mcp_tools.short(part.name), arguments=part.arguments)
        if isinstance(part, ToolCall)
        else part
        for part in message.parts
    )
    return Message(role=message.role, parts=tuple(parts))


def _parameters(run: ServerRun) -> Mapping[str, str]:
    request = run.request
    return {one.id: one.value for one in request.requested_model.parameters} if request else {}
