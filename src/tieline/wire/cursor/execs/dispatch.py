"""Dispatch execs: turn each exec into a call to one of the client's tools, or answer it at once.

If one of the client's tools fits, the exec becomes a call (`receive` returns the call, `answer` takes its result). If
none fits, the exec is answered with a typed refusal; if its kind is unknown, with an error message. Every exec is
answered, and none is reported as done unless it was done.

`PendingCalls` tracks which calls the client has seen, and adds the user's text to the result of one of them.

An answer identifies its exec only by a number, which may be 0 and which the service may reuse. Each answer is followed
by a `stream_close`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import Message
from msgspec.structs import replace

from tieline.model.content import File, Image, Text, ToolCall, ToolResult
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor._pb.exec_kinds_pb2 import (
    McpArgs,
    McpImageContent,
    McpResult,
    McpSuccess,
    McpTextContent,
    McpToolResultContentItem,
)
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
from tieline.wire.cursor.execs.outcome import image_of, is_rejected, part_text, text_of, unframed
from tieline.wire.cursor.execs.plans import CallPlan, ClientToolset, ExecRefusal, call, plan
from tieline.wire.cursor.execs.rejections import rejection
from tieline.wire.cursor.execs.results import FinishedExec, RunningShells, typed
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.protobuf_json import arguments, from_value
from tieline.wire.shared.capabilities import Wanted
from tieline.wire.shared.json import encode

MAX_PENDING = 1024
"""The maximum number of execs that wait for the client at the same time. Further execs are answered with an error."""
_TAKES_USER_TEXT = frozenset(("mcp_args", "shell_args", "shell_stream_args"))
"""The kinds of execs whose result can include the user's text. In other results, the text could end up in a file."""


class _PendingExec(NamedTuple):
    """An exec that waits for the client's result."""

    exec_id: int
    kind: str
    args: Any
    plan: CallPlan
    began: float


class ExecDispatcher:
    """Turns the execs of one run into calls to the client's tools, and builds the answers to the service.

    `mint` returns a new call id, and `clock` returns the time in seconds. `workspace` is the client's working
    directory.
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
        """Replace the client's tools. Later execs are mapped to the new tools."""
        self._toolset = ClientToolset(offer, self._toolset.workspace)

    def receive(self, message: ExecServerMessage) -> ToolCall | Sequence[AgentClientMessage]:
        """Return the call that the client must run for this exec, or messages that answer the exec at once."""
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
        """Return the messages that send a call's result to the service. Raise KeyError if no exec waits for it."""
        waiting = self._take(result.call_id)
        millis = self._millis(waiting)
        if waiting.kind == "mcp_args":
            return _answered(waiting.exec_id, waiting.kind, _own_tool_result(waiting.args, result), millis)
        done = FinishedExec(
            waiting.kind, waiting.args, waiting.plan, result, millis, self._toolset, self._reads, self._shells
        )
        return _answered(waiting.exec_id, waiting.kind, typed(done), millis)

    def takes_user_text(self, call_id: str) -> bool:
        """Return whether the result of a pending call can include the user's text."""
        return self._waiting_execs[call_id].kind in _TAKES_USER_TEXT

    def abort(self, exec_id: int) -> None:
        """Remove an exec that the service has aborted. Do nothing if it is not pending."""
        call_id = self._call_of(exec_id)
        if call_id is not None:
            self._take(call_id)

    def confirm_abort(self, exec_id: int) -> Sequence[AgentClientMessage]:
        """Return the messages that confirm to the service that an exec was aborted. Call this before `abort`.

        A shell command is reported as killed. If the exec is not pending, return no messages.
        """
        call_id = self._call_of(exec_id)
        if call_id is None:
            return ()
        waiting = self._waiting_execs[call_id]
        millis = self._millis(waiting)
        ran = shell_results.ShellOutcome("", ending="aborted")
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
        if kind == "write_args" and self._reads.is_partial(self._toolset.absolute(args.path)):
            return ExecRefusal(
                "Only a part of this file could be read, so writing it as a whole would lose the rest. "
                + self._toolset.refusal("write", "write a file that it cannot show in full")
            )
        return plan(kind, args, self._toolset)

    def _typed_in(self, shell_id: int, chars: str) -> CallPlan | None:
        """Return a call that writes `chars` to the standard input of the background command `shell_id`.

        Return None if the command is unknown or no tool can do this.
        """
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


class SentResults(NamedTuple):
    """The messages that carry the results of calls, and whether the user's text could be added to one of them."""

    messages: Sequence[AgentClientMessage]
    took_text: bool


class PendingCalls:
    """The calls of one run that the client has yet to answer. `execs` translates the results for the service."""

    def __init__(self, execs: ExecDispatcher) -> None:
        self._execs = execs
        self._unanswered: set[str] = set()
        self._late: set[str] = set()

    @property
    def unanswered(self) -> frozenset[str]:
        """The ids of calls that the client has seen but not answered.

        Calls that the service has aborted are included, because the client may still run them.
        """
        return frozenset(self._unanswered)

    def add(self, call_id: str, *, in_leg: bool) -> None:
        """Record a call. If `in_leg` is false, the client receives the call in the next leg."""
        (self._unanswered if in_leg else self._late).add(call_id)

    def begin_leg(self) -> None:
        """Mark the calls made since the last leg as seen by the client."""
        self._unanswered |= self._late
        self._late.clear()

    def answer(self, results: Sequence[ToolResult], user_text: str) -> SentResults:
        """Return the messages that send results to the service.

        `user_text` is appended to the last result to which text for the model can be added. Results of calls that were
        already aborted or answered are ignored.
        """
        self._unanswered.difference_update(result.call_id for result in results)
        awaited = {result.call_id: result for result in results if result.call_id in self._execs.pending}
        takers = [call_id for call_id in awaited if self._execs.takes_user_text(call_id)]
        if user_text and takers:
            awaited[takers[-1]] = _with_user_text(awaited[takers[-1]], user_text)
        messages: list[AgentClientMessage] = []
        for result in awaited.values():
            messages += self._execs.answer(result)
        return SentResults(messages, bool(takers))

    def abort(self, exec_id: int) -> Sequence[AgentClientMessage]:
        """Remove an exec that the service has aborted, and return the messages that confirm the abort."""
        messages = self._execs.confirm_abort(exec_id)
        self._execs.abort(exec_id)
        return messages


def _with_user_text(result: ToolResult, text: str) -> ToolResult:
    added = f"\n\nThe user also says:\n<user_message>\n{text}\n</user_message>"
    return replace(result, content=(*result.content, Text(text=added)))


# ── The client's own tools ───────────────────────────────────────────────────────────────────────


def _own_tool(args: McpArgs, toolset: ClientToolset) -> CallPlan | None:
    """Return the call to the client's tool that the model called by name; None if no such tool was offered."""
    name = toolset.offer.name_of(args)
    if name is None:
        return None
    if toolset.offer.specs[name].freeform:
        text = from_value(args.args["input"]) if "input" in args.args else ""
        return CallPlan(name, text if isinstance(text, str) else encode(text).decode(), freeform=True)
    return CallPlan(name, arguments(args.args))


def _own_tool_result(args: McpArgs, result: ToolResult) -> Sequence[Message]:
    """Convert the result of a tool that the model called by name. Each text and image becomes a separate item."""
    text = text_of(result)
    if is_rejected(text, is_error=result.is_error):
        return rejection("mcp_args", args, unframed(text))
    items = [_item(part) for part in result.content]
    return [McpResult(success=McpSuccess(content=items or [_item(Text())], is_error=result.is_error))]


def _item(part: Text | Image | File) -> McpToolResultContentItem:
    image = image_of(part)
    if image is not None:
        return McpToolResultContentItem(image=McpImageContent(data=image[0], mime_type=image[1] or "image/png"))
    return McpToolResultContentItem(text=McpTextContent(text=part_text(part) or ""))


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def _answered(exec_id: int, kind: str, results: Sequence[Message], millis: int = 0) -> Sequence[AgentClientMessage]:
    return [*(_result_message(exec_id, kind, result, millis) for result in results), _closing(exec_id)]


def _result_message(exec_id: int, kind: str, result: Message, millis: int) -> AgentClientMessage:
    field: dict[str, Any] = {_field(kind): result}
    message = ExecClientMessage(id=exec_id, local_execution_time_ms=millis, **field)
    return AgentClientMessage(exec_client_message=message)


def _field(kind: str) -> str:
    """Return the name of the message field that holds the result of an exec of this kind."""
    return "shell_stream" if kind == "shell_stream_args" else f"{kind.removesuffix('_args')}_result"


def _unknown(exec_id: int, kind: str | None) -> Sequence[AgentClientMessage]:
    """Answer an exec of an unknown kind with the error that Cursor's own client sends. The run continues."""
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
