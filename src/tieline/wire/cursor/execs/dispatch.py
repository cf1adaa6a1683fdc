"""Dispatch execs: to a tool of the client, or to an immediate reply.

An exec either becomes a call of the client's own tool (`receive` returns it, `answer` takes its result) or is answered
at once: with a typed refusal where the client has no tool for it, or with an exception where the kind is unknown. Every
exec is answered, and none is reported as done that was not.

An answer refers to its exec by number alone. The number may be 0, and may be used again. A `stream_close` follows each
answer.
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
from tieline.wire.cursor.execs.file_results import FileReads
from tieline.wire.cursor.execs.local_replies import local_reply, unknown_tool
from tieline.wire.cursor.execs.plans import CallPlan, ClientToolset, ExecRefusal, call, plan
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.cursor.execs.results import FinishedExec, RunningShells, typed
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.protobuf_json import arguments, from_value
from tieline.wire.shared.capabilities import Wanted
from tieline.wire.shared.json import encode

MAX_PENDING = 1024
"""How many execs may wait for the client at once."""


class _PendingExec(NamedTuple):
    """An exec that waits for the client's result."""

    exec_id: int
    kind: str
    args: Any
    plan: CallPlan
    began: float


class ExecDispatcher:
    """The execs of one run.

    `mint` returns ids for calls and `clock` seconds; `workspace` is the folder in which the client works.
    """

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
        """The numbers of the execs that wait for the client, by call id."""
        self._mint = mint
        self._clock = clock
        self._toolset = ClientToolset(offer, workspace)
        self._waiting_execs: dict[str, _PendingExec] = {}
        self._reads = FileReads()
        self._shells = RunningShells()

    def set_tools(self, offer: OfferedTools) -> None:
        """Replace the tools: later execs are mapped to these."""
        self._toolset = ClientToolset(offer, self._toolset.workspace)

    def receive(self, message: ExecServerMessage) -> ToolCall | Sequence[AgentClientMessage]:
        """Return a call for the client, or the messages that answer the exec."""
        kind = message.WhichOneof("message")
        if kind is None:
            return _unknown(message.id, kind)
        if len(self._waiting_execs) >= MAX_PENDING:
            return _thrown(message.id, "Too many calls are waiting for the client")
        args = getattr(message, kind)
        planned = self._planned(kind, args)
        if isinstance(planned, CallPlan):
            return self._called(_PendingExec(message.id, kind, args, planned, self._clock()))
        if isinstance(planned, ExecRefusal):
            return _answered(message.id, kind, rejection(kind, args, planned.reason))
        answer = unknown_tool(args, self._toolset) if kind == "mcp_args" else local_reply(kind, args, self._toolset)
        return _unknown(message.id, kind) if answer is None else _answered(message.id, kind, answer)

    def answer(self, result: ToolResult) -> Sequence[AgentClientMessage]:
        """Return the messages that answer the exec behind a call; raise KeyError if there is none."""
        waiting = self._take(result.call_id)
        millis = self._millis(waiting)
        done = FinishedExec(
            waiting.kind, waiting.args, waiting.plan, result, millis, self._toolset, self._reads, self._shells
        )
        return _answered(waiting.exec_id, waiting.kind, typed(done), millis)

    def abort(self, exec_id: int) -> str | None:
        """Forget an exec that the service no longer wants; return its call id, if it had one."""
        call_id = self._call_of(exec_id)
        if call_id is not None:
            self._take(call_id)
        return call_id

    def confirm_abort(self, exec_id: int) -> Sequence[AgentClientMessage]:
        """Return the messages that confirm an abort: a command ends as if it had been killed."""
        call_id = self._call_of(exec_id)
        if call_id is None:
            return ()
        waiting = self._waiting_execs[call_id]
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
        """Return a heartbeat for every exec that waits for the client."""
        return [
            _control(ExecClientControlMessage(heartbeat=ExecClientHeartbeat(id=exec_id)))
            for exec_id in self._pending.values()
        ]

    def _planned(self, kind: str, args: Any) -> CallPlan | ExecRefusal | None:
        if kind == "mcp_args":
            return _own_tool(args, self._toolset)
        if kind == "write_shell_stdin_args":
            return self._typed_in(args.shell_id, args.chars)
        if kind == "write_args" and self._reads.is_partial(args.path):
            return ExecRefusal(
                "Only a part of this file could be read, so writing it as a whole would lose the rest. "
                + self._toolset.refusal("write", "write a file that it cannot show in full")
            )
        return plan(kind, args, self._toolset)

    def _typed_in(self, shell_id: int, chars: str) -> CallPlan | None:
        """Return a call that writes to a command which the client keeps running."""
        session = self._shells.session(shell_id)
        if session is None:
            return None
        name: int | str = int(session) if session.isdecimal() else session
        return call("stdin", self._toolset.fit("stdin", Wanted(must={"session": name, "chars": chars})))

    def _called(self, waiting: _PendingExec) -> ToolCall:
        planned = waiting.plan
        made = ToolCall(id=self._mint(), name=planned.name, arguments=planned.arguments, freeform=planned.freeform)
        self._waiting_execs[made.id] = waiting
        self._pending[made.id] = waiting.exec_id
        return made

    def _take(self, call_id: str) -> _PendingExec:
        del self._pending[call_id]
        return self._waiting_execs.pop(call_id)

    def _call_of(self, exec_id: int) -> str | None:
        return next((call_id for call_id, pending in self._pending.items() if pending == exec_id), None)

    def _millis(self, waiting: _PendingExec) -> int:
        return min(max(int((self._clock() - waiting.began) * 1000), 0), 2**31 - 1)


def _own_tool(args: McpArgs, toolset: ClientToolset) -> CallPlan | None:
    """Return a call of a tool that the model chose by name, with the arguments unchanged."""
    name = toolset.offer.name_of(args)
    if name is None:
        return None
    if toolset.offer.specs[name].freeform:
        text = from_value(args.args["input"]) if "input" in args.args else ""
        return CallPlan(name, text if isinstance(text, str) else encode(text).decode(), freeform=True)
    return CallPlan(name, arguments(args.args))


def _answered(exec_id: int, kind: str, results: Sequence[Message], millis: int = 0) -> Sequence[AgentClientMessage]:
    return [*(_result_message(exec_id, kind, result, millis) for result in results), _closing(exec_id)]


def _result_message(exec_id: int, kind: str, result: Message, millis: int) -> AgentClientMessage:
    field: dict[str, Any] = {_field(kind): result}
    message = ExecClientMessage(id=exec_id, local_execution_time_ms=millis, **field)
    return AgentClientMessage(exec_client_message=message)


def _field(kind: str) -> str:
    """Return the name of the field that holds the result of this kind."""
    return "shell_stream" if kind == "shell_stream_args" else f"{kind.removesuffix('_args')}_result"


def _unknown(exec_id: int, kind: str | None) -> Sequence[AgentClientMessage]:
    """Answer an exec of an unknown kind, in the words of Cursor's own client; the run continues without it."""
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
