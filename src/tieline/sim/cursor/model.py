"""The demo model behind the simulated service: its words become updates of the turn, its calls become execs."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, get_args

from tieline.demo.decision import decide
from tieline.demo.reply_events import to_events
from tieline.demo.reply_steps import Silence
from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Failed, PartDelta, PartEnd, PartStart, Usage
from tieline.model.request import Effort, Reasoning, Request, ToolSpec
from tieline.sim.cursor import native
from tieline.sim.cursor.offer import McpOffer
from tieline.sim.cursor.refusals import OF_KIND, Refusal, RunRefused
from tieline.sim.cursor.run import Run, update
from tieline.sim.cursor.settings import Model
from tieline.sim.cursor.steps import Doing, Send, Steps, Wait
from tieline.wire.cursor._pb import exec_pb2
from tieline.wire.cursor._pb import tool_calls_pb2 as shown
from tieline.wire.cursor._pb import updates_pb2 as updates

BATCH = 4
"""After so many words there is the silence that the simulator's pace asks for."""

SHORT = 20
"""Words up to this length are remembered as the messages they become."""

_ONE_TOKEN = update(token_delta=updates.TokenDeltaUpdate(tokens=1))


class Leg(NamedTuple):
    """What the model said in one leg, and what it cost."""

    parts: tuple[Part, ...]
    usage: Usage

    @property
    def calls(self) -> list[ToolCall]:
        """The calls it made."""
        return [part for part in self.parts if isinstance(part, ToolCall)]


class Mind:
    """The demo model in one run."""

    def __init__(self, run: Run, model: Model, offer: McpOffer, system: str) -> None:
        self._run = run
        self._model = model
        self._offer = offer
        self._system = system

    def leg(self, messages: Sequence[Message]) -> Doing[Leg]:
        """Decide on what was said so far, and say it; raises RunRefused when the model fails."""
        request = self._request(messages)
        speech = _Speech(self)
        count = 0
        for event in to_events(decide(request), request):
            if isinstance(event, Silence):
                yield Wait(until=lambda: False, seconds=event.seconds)
                continue
            yield from speech.spoken(event)
            count += isinstance(event, PartDelta)
            if self._run.settings.pace and count and not count % BATCH:
                yield Wait(until=lambda: False, seconds=self._run.settings.pace)
        return Leg(tuple(speech.parts), speech.usage)

    def display(self, call: ToolCall) -> shown.ToolCall:
        """The record of a call for people to look at."""
        if self._is_native(call):
            return native.display(call)
        return shown.ToolCall(mcp_tool_call=shown.McpToolCall(args=self._offer.args(call)))

    def perform(self, call: ToolCall) -> Doing[ToolResult]:
        """Have the client run a call."""
        if self._is_native(call):
            return native.perform(self._run, call)
        message = exec_pb2.ExecServerMessage(mcp_args=self._offer.args(call))
        return native.execute(self._run, call.id, message)

    def completed(self, call: ToolCall, result: ToolResult) -> Send:
        """The record of a call with what came of it."""
        record = self.display(call)
        if record.HasField("mcp_tool_call"):
            success = record.mcp_tool_call.result.success
            success.is_error = result.is_error
            for part in result.content:
                if isinstance(part, Text):
                    success.content.add().text.text = part.text
        return update(tool_call_completed=updates.ToolCallCompletedUpdate(call_id=call.id, tool_call=record))

    def _is_native(self, call: ToolCall) -> bool:
        return call.name not in self._offer and call.name in self._run.native

    def _request(self, messages: Sequence[Message]) -> Request:
        system = (Message(role="system", parts=(Text(text=self._system),)),) if self._system else ()
        return Request(
            model=self._model.id,
            messages=(*system, *(_renamed(message, self._offer) for message in messages)),
            tools=self._tools(),
            reasoning=self._reasoning(),
        )

    def _tools(self) -> tuple[ToolSpec, ...]:
        offered = self._offer.specs
        return (*offered, *(spec for spec in native.specs() if spec.name in self._run.native and spec not in offered))

    def _reasoning(self) -> Reasoning:
        given = _parameters(self._run)
        effort = given.get("effort") or given.get("reasoning")
        thinks = given.get("thinking", "true" if self._model.thinks else "")
        return Reasoning(
            mode={"true": "adaptive", "false": "off"}.get(thinks),  # type: ignore[arg-type]  # only these two
            effort=effort if effort in get_args(Effort) else None,  # type: ignore[arg-type]  # just looked
        )


def text_delta(text: str) -> Send:
    """A delta of text."""
    if len(text) <= SHORT:
        return _word(text)
    return update(text_delta=updates.TextDeltaUpdate(text=text))


def thinking_delta(text: str) -> Send:
    """A delta of thoughts."""
    return update(thinking_delta=updates.ThinkingDeltaUpdate(text=text))


@lru_cache(maxsize=4096)
def _word(text: str) -> Send:
    """The same words come again and again."""
    return update(text_delta=updates.TextDeltaUpdate(text=text))


class _Speech:
    """Turns the events of a leg into updates, and gathers its parts."""

    def __init__(self, mind: Mind) -> None:
        self.parts: list[Part] = []
        self.usage = Usage()
        self._mind = mind
        self._part: Part = Text()
        self._arguments = ""

    def spoken(self, event: object) -> Steps:
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
                raise RunRefused(Refusal(code=OF_KIND[event.kind], message=event.message))
            case _:
                # That it began and why it ended, which has no word here.
                pass

    def _more(self, text: str) -> Steps:
        match self._part:
            case ToolCall() as call:
                self._arguments += text
                record = self._mind.display(call)
                # Not what is new but all there is so far: that is how the service does it.
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
                started = updates.ToolCallStartedUpdate(call_id=part.id, tool_call=self._mind.display(part))
                yield update(tool_call_started=started)
            case Thinking():
                yield update(thinking_completed=updates.ThinkingCompletedUpdate(thinking_duration_ms=1))
            case _:
                pass


def _renamed(message: Message, offer: McpOffer) -> Message:
    """A message whose calls have the names that the tools have here."""
    if not any(isinstance(part, ToolCall) for part in message.parts):
        return message
    parts = (
        ToolCall(id=part.id, name=offer.short(part.name), arguments=part.arguments)
        if isinstance(part, ToolCall)
        else part
        for part in message.parts
    )
    return Message(role=message.role, parts=tuple(parts))


def _parameters(run: Run) -> Mapping[str, str]:
    request = run.request
    return {one.id: one.value for one in request.requested_model.parameters} if request else {}
