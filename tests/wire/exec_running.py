"""Execs as tests use them: asked by the service, called at the client, answered in typed messages."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from google.protobuf.json_format import MessageToDict

from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.request import ToolSpec
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor._pb.exec_pb2 import ExecServerMessage
from tieline.wire.cursor.execs.dispatch import ExecDispatcher
from tieline.wire.cursor.opening.offered_tools import OfferedTools

HERE = "/home/user/project"


def execs_for(tools: Sequence[ToolSpec], workspace: str = HERE, **more: Any) -> ExecDispatcher:
    """The execs of a run with this client."""
    numbers = count(1)
    return ExecDispatcher(OfferedTools.of(tools), mint=lambda: f"call_{next(numbers)}", workspace=workspace, **more)


def asked(exec_id: int = 1, **kind: Any) -> ExecServerMessage:
    """What the service asks, by the name of the kind."""
    return ExecServerMessage(id=exec_id, exec_id=f"exec-{exec_id}", **kind)


def call(execs: ExecDispatcher, exec_id: int = 1, **kind: Any) -> ToolCall:
    """The call it becomes."""
    made = execs.receive(asked(exec_id, **kind))
    assert isinstance(made, ToolCall)
    return made


def called(tools: Sequence[ToolSpec], **kind: Any) -> tuple[str, Any]:
    """The name and the arguments of the call it becomes."""
    made = call(execs_for(tools), **kind)
    return made.name, json.loads(made.arguments)


def at_once(tools: Sequence[ToolSpec], **kind: Any) -> list[dict[str, Any]]:
    """The answer it gets right away."""
    answered = execs_for(tools).receive(asked(**kind))
    assert not isinstance(answered, ToolCall)
    return shown(answered)


def result(text: str, *, is_error: bool = False, call_id: str = "call_1") -> ToolResult:
    """What a tool gave back."""
    return ToolResult(call_id=call_id, content=(Text(text=text),), is_error=is_error)


def told(tools: Sequence[ToolSpec], came: ToolResult | str, **kind: Any) -> Any:
    """The typed result, or the list of stream events, that the service gets for what the tool gave back."""
    execs = execs_for(tools)
    made = call(execs, **kind)
    came = result(came) if isinstance(came, str) else came
    *answers, closing = shown(execs.answer(came))
    assert made.id not in execs.pending
    assert closing == {"execClientControlMessage": {"streamClose": {"id": 1}}}
    bodies = [dict(answer["execClientMessage"]) for answer in answers]
    for body in bodies:
        assert (body.pop("id"), body.pop("localExecutionTimeMs")) == (1, 0)
    results = [only(body) for body in bodies]
    return results if "shell_stream_args" in kind else results[0]


def only(body: dict[str, Any]) -> Any:
    """The value of the one field there is."""
    [value] = body.values()
    return value


def shown(messages: Sequence[AgentClientMessage]) -> list[dict[str, Any]]:
    """Messages as JSON, for looking at."""
    return [MessageToDict(message) for message in messages]
