"""What the service asks to have done, and how it is told what came of it.

An exec either becomes a call of the client's own tool (`receive` gives it, `answer` takes its result) or is answered at
once: refused in a typed way where the client has no tool for it, or thrown back where nobody knows it. No exec is ever
left alone, and none is said to be done that was not.

Answers carry the number of the exec and nothing else to know it by; the number may be 0, and may come again. A
`stream_close` follows each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import Message

from tieline.model.content import ToolCall, ToolResult
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor._pb.exec_kinds_pb2 import McpArgs
from tieline.wire.cursor._pb.exec_pb2 import (
    ExecClientControlMessage,
    ExecClientHeartbeat,
    ExecClientMessage,
    ExecClientStreamClose,
    ExecClientThrow,
    ExecServerMessage,
)
from tieline.wire.cursor.execs import shell_results
from tieline.wire.cursor.execs.file_results import PartialReads
from tieline.wire.cursor.execs.local_replies import local_reply, unknown_tool
from tieline.wire.cursor.execs.plans import CallPlan, ClientToolset, ExecRefusal, call, plan
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.cursor.execs.results import FinishedExec, RunningShells, typed
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.protobuf_json import arguments, from_value
from tieline.wire.shared.capabilities import Wanted
from tieline.wire.shared.json import encode

MOST_PENDING = 1024
"""So many execs may wait at once; more than that nobody will ever answer."""


class _PendingExec(NamedTuple):
    """An exec whose call the client has."""

    exec_id: int
    kind: str
    args: Any
    plan: CallPlan
    began: float


class ExecDispatcher:
    """The execs of one run. `mint` gives the ids of calls, `clock` seconds; `workspace` is where the client works."""

    def __init__(
        self,
        offer: OfferedTools,
        *,
        mint: Callable[[], str],
        workspace: str = "",
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._pending: dict[str, int] = {}
        self.pending: Mapping[str, int] = MappingProxyType(self._pending)
        """The calls the client has, and the execs behind them."""
        self._mint = mint
        self._clock = clock
        self._desk = ClientToolset(offer, workspace)
        self._waiting: dict[str, _PendingExec] = {}
        self._reads = PartialReads()
        self._shells = RunningShells()

    def set_tools(self, offer: OfferedTools) -> None:
        """The tools of the newest leg."""
        self._desk = ClientToolset(offer, self._desk.workspace)

    def receive(self, message: ExecServerMessage) -> ToolCall | Sequence[AgentClientMessage]:
        """A call for the client, or the answer right away."""
        kind = message.WhichOneof("message")
        if kind is None:
            return _unknown(message.id, kind)
        if len(self._waiting) >= MOST_PENDING:
            return _thrown(message.id, "Too many calls are waiting for the client")
        args = getattr(message, kind)
        planned = self._planned(kind, args)
        if isinstance(planned, CallPlan):
            return self._called(_PendingExec(message.id, kind, args, planned, self._clock()))
        if isinstance(planned, ExecRefusal):
            return _answered(message.id, kind, rejection(kind, args, planned.reason))
        answer = unknown_tool(args, self._desk) if kind == "mcp_args" else local_reply(kind, args, self._desk)
        return _unknown(message.id, kind) if answer is None else _answered(message.id, kind, answer)

    def answer(self, result: ToolResult) -> Sequence[AgentClientMessage]:
        """The typed result of the exec behind a call; KeyError if there is none."""
        waiting = self._take(result.call_id)
        millis = self._millis(waiting)
        done = FinishedExec(
            waiting.kind, waiting.args, waiting.plan, result, millis, self._desk, self._reads, self._shells
        )
        return _answered(waiting.exec_id, waiting.kind, typed(done), millis)

    def abort(self, exec_id: int) -> str | None:
        """The service no longer wants this: forget it. Its call id, if there was one."""
        call_id = self._call_of(exec_id)
        if call_id is not None:
            self._take(call_id)
        return call_id

    def confirm_abort(self, exec_id: int) -> Sequence[AgentClientMessage]:
        """What is said of an exec that is about to be aborted: a command ends as one that was killed."""
        call_id = self._call_of(exec_id)
        if call_id is None:
            return ()
        waiting = self._waiting[call_id]
        millis = self._millis(waiting)
        ran = shell_results.CommandOutcome("", ending="aborted")
        match waiting.kind:
            case "shell_stream_args":
                asked = shell_results.ShellCommand(waiting.args.command, waiting.args.working_directory, millis)
                return _answered(exec_id, waiting.kind, shell_results.stream(asked, ran)[-1:], millis)
            case "shell_args" | "mini_swe_agent_bash_args":
                asked = shell_results.ShellCommand(waiting.args.command, waiting.args.working_directory, millis)
                return _answered(exec_id, waiting.kind, [shell_results.result(asked, ran)], millis)
            case _:
                return (_closing(exec_id),)

    def heartbeats(self) -> Sequence[AgentClientMessage]:
        """A sign of life for every exec whose call the client has."""
        return [
            _control(ExecClientControlMessage(heartbeat=ExecClientHeartbeat(id=exec_id)))
            for exec_id in self._pending.values()
        ]

    def _planned(self, kind: str, args: Any) -> CallPlan | ExecRefusal | None:
        if kind == "mcp_args":
            return _own_tool(args, self._desk)
        if kind == "write_shell_stdin_args":
            return self._typed_in(args.shell_id, args.chars)
        if kind == "write_args" and self._reads.is_partial(args.path):
            return ExecRefusal(
                "Only a part of this file could be read, so writing it as a whole would lose the rest. "
                + self._desk.refusal("write", "write a file that it cannot show in full")
            )
        return plan(kind, args, self._desk)

    def _typed_in(self, shell_id: int, chars: str) -> CallPlan | None:
        """A call that writes to a command which the client keeps running."""
        session = self._shells.session(shell_id)
        if session is None:
            return None
        name: int | str = int(session) if session.isdecimal() else session
        return call("stdin", self._desk.fit("stdin", Wanted(must={"session": name, "chars": chars})))

    def _called(self, waiting: _PendingExec) -> ToolCall:
        planned = waiting.plan
        made = ToolCall(id=self._mint(), name=planned.name, arguments=planned.arguments, freeform=planned.freeform)
        self._waiting[made.id] = waiting
        self._pending[made.id] = waiting.exec_id
        return made

    def _take(self, call_id: str) -> _PendingExec:
        del self._pending[call_id]
        return self._waiting.pop(call_id)

    def _call_of(self, exec_id: int) -> str | None:
        return next((call_id for call_id, pending in self._pending.items() if pending == exec_id), None)

    def _millis(self, waiting: _PendingExec) -> int:
        return min(max(int((self._clock() - waiting.began) * 1000), 0), 2**31 - 1)


def _own_tool(args: McpArgs, desk: ClientToolset) -> CallPlan | None:
    """A call of a tool under the client's own name for it, with the arguments as they are."""
    name = desk.offer.name_of(args)
    if name is None:
        return None
    if desk.offer.specs[name].freeform:
        text = from_value(args.args["input"]) if "input" in args.args else ""
        return CallPlan(name, text if isinstance(text, str) else encode(text).decode(), freeform=True)
    return CallPlan(name, arguments(args.args))


def _answered(exec_id: int, kind: str, results: Sequence[Message], millis: int = 0) -> Sequence[AgentClientMessage]:
    return [*(_told(exec_id, kind, result, millis) for result in results), _closing(exec_id)]


def _told(exec_id: int, kind: str, result: Message, millis: int) -> AgentClientMessage:
    field: dict[str, Any] = {_field(kind): result}
    message = ExecClientMessage(id=exec_id, local_execution_time_ms=millis, **field)
    return AgentClientMessage(exec_client_message=message)


def _field(kind: str) -> str:
    """The field in which an exec of this kind is answered."""
    return "shell_stream" if kind == "shell_stream_args" else f"{kind.removesuffix('_args')}_result"


def _unknown(exec_id: int, kind: str | None) -> Sequence[AgentClientMessage]:
    """Nobody here knows what this is; the run goes on without it."""
    name = "undefined" if kind is None else _camel(kind)
    return _thrown(exec_id, f"No handler found for server message of type {name}")


def _thrown(exec_id: int, error: str) -> Sequence[AgentClientMessage]:
    throw = ExecClientThrow(id=exec_id, error=error)
    return [_control(ExecClientControlMessage(throw=throw)), _closing(exec_id)]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _closing(exec_id: int) -> AgentClientMessage:
    return _control(ExecClientControlMessage(stream_close=ExecClientStreamClose(id=exec_id)))


def _control(message: ExecClientControlMessage) -> AgentClientMessage:
    return AgentClientMessage(exec_client_control_message=message)
