"""Converts the client's answers to an exec request (a request to run a tool) into a tool result."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from tieline.model.content import Image, Text, ToolResult
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2

Content = tuple[Text | Image, ...]

_PNG = b"\x89PNG"


def to_tool_result(call_id: str, messages: Sequence[exec_pb2.ExecClientMessage], thrown: str | None) -> ToolResult:
    """Combine the client's answers to an exec request into one result. `thrown` is the client's error, if any."""
    if thrown is not None:
        return ToolResult(call_id=call_id, content=(Text(text=thrown),), is_error=True)
    streamed = [message.shell_stream for message in messages if message.HasField("shell_stream")]
    if streamed:
        return _streamed(call_id, streamed)
    kind = messages[-1].WhichOneof("message") if messages else None
    if kind is None:
        return ToolResult(call_id=call_id, content=(Text(text="no result"),), is_error=True)
    return _typed(call_id, getattr(messages[-1], kind))


def _typed(call_id: str, result: Message) -> ToolResult:
    """Convert `result`, the client's answer, which may contain a success or one of several failures."""
    choices = [oneof.name for oneof in result.DESCRIPTOR.oneofs if oneof.name == "result"]
    chosen = result.WhichOneof("result") if choices else None
    if chosen is None:
        return ToolResult(call_id=call_id, content=_plain(result))
    inner: Message = getattr(result, chosen)
    if chosen not in ("success", "approved", "complete", "start_success", "save_success", "discard_success"):
        return ToolResult(call_id=call_id, content=_complaint(chosen, inner), is_error=True)
    is_error = isinstance(inner, kinds.McpSuccess) and inner.is_error
    tell = _TELLERS.get(inner.DESCRIPTOR.name, _plain)
    return ToolResult(call_id=call_id, content=tell(inner), is_error=is_error)


_REFUSALS = frozenset(("rejected", "permission_denied", "sandbox_unsupported"))
"""The kinds of events by which a client refuses a command. An exit event that follows one of them is ignored."""


def _streamed(call_id: str, events: Sequence[kinds.ShellStream]) -> ToolResult:
    output = "".join(event.stdout.data or event.stderr.data for event in events)
    refused = [event for event in events if event.WhichOneof("event") in _REFUSALS]
    last = refused[0] if refused else events[-1]
    match last.WhichOneof("event"):
        case "exit":
            code = last.exit.code
            said = output + (f"\n(exit code {code})" if code else "")
            return ToolResult(call_id=call_id, content=(Text(text=said),), is_error=bool(code))
        case str(kind) if kind in _REFUSALS:
            return ToolResult(call_id=call_id, content=_complaint(kind, getattr(last, kind)), is_error=True)
        case "backgrounded":
            return ToolResult(call_id=call_id, content=(Text(text=f"runs as shell {last.backgrounded.shell_id}"),))
        case _:
            return ToolResult(call_id=call_id, content=(Text(text=output),))


def _complaint(kind: str, inner: Message) -> Content:
    """Return a text with the name of a failure and all strings in `inner`, which describes the failure."""
    words = [value for field, value in inner.ListFields() if isinstance(value, str) and field.name != "command"]
    return (Text(text=": ".join([kind.replace("_", " "), *words])),)


def _plain(inner: Message) -> Content:
    return (Text(text=MessageToJson(inner, indent=None)),)


# ── Successes ────────────────────────────────────────────────────────────────────────────────────


def _mcp(success: Message) -> Content:
    if not isinstance(success, kinds.McpSuccess):
        return ()
    return tuple(
        Text(text=item.text.text)
        if item.HasField("text")
        else Image(media_type=item.image.mime_type, data=b64encode(item.image.data).decode())
        for item in success.content
    )


def _read(success: Message) -> Content:
    if not isinstance(success, kinds.ReadSuccess):
        return ()
    if not success.data:
        return (Text(text=success.content),)
    if success.data.startswith(_PNG):
        return (Image(media_type="image/png", data=b64encode(success.data).decode()),)
    return (Text(text=f"{len(success.data)} bytes of binary data"),)


def _shell(success: Message) -> Content:
    if not isinstance(success, kinds.ShellSuccess):
        return ()
    return (Text(text=success.interleaved_output or success.stdout + success.stderr),)


def _written(success: Message) -> Content:
    if not isinstance(success, kinds.WriteSuccess):
        return ()
    return (Text(text=f"wrote {success.file_size} bytes to {success.path}"),)


def _deleted(success: Message) -> Content:
    if not isinstance(success, kinds.DeleteSuccess):
        return ()
    return (Text(text=f"deleted {success.path}"),)


def _listed(success: Message) -> Content:
    if not isinstance(success, kinds.LsSuccess):
        return ()
    return (Text(text="\n".join(_tree(success.directory_tree_root))),)


def _tree(node: kinds.LsDirectoryTreeNode, indent: str = "") -> Iterator[str]:
    for child in node.children_dirs:
        yield f"{indent}{child.abs_path.rstrip('/').rpartition('/')[2]}/"
        if len(indent) < 40:
            yield from _tree(child, f"{indent}  ")
    yield from (f"{indent}{file.name}" for file in node.children_files)


def _found(success: Message) -> Content:
    if not isinstance(success, kinds.GrepSuccess):
        return ()
    lines: list[str] = []
    for union in success.workspace_results.values():
        lines += union.files.files
        lines += [f"{count.file}: {count.count}" for count in union.count.counts]
        lines += [
            f"{match.file}:{line.line_number}:{line.content}"
            for match in union.content.matches
            for line in match.matches
        ]
    return (Text(text="\n".join(lines)),)


def _fetched(success: Message) -> Content:
    return (Text(text=success.content),) if isinstance(success, kinds.FetchSuccess) else ()


_TELLERS: Mapping[str, Callable[[Message], Content]] = {
    "McpSuccess": _mcp,
    "ReadSuccess": _read,
    "ShellSuccess": _shell,
    "WriteSuccess": _written,
    "DeleteSuccess": _deleted,
    "LsSuccess": _listed,
    "GrepSuccess": _found,
    "FetchSuccess": _fetched,
}
