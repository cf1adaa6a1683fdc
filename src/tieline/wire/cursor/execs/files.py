"""Files read, written and deleted by the client's tools, as typed results.

An edit is a read and a write of the whole file, so what a tool merely *shows* of a file is dangerous: numbers, notes,
or half of it would be written back. Decorations are taken off; a file that was shown in part is not overwritten; and a
tool that answers "unchanged since last read" gets what it gave last time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tieline.model.content import ToolResult
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor.execs.outcome import Outcome, image_of, judge
from tieline.wire.shared.capabilities import Role
from tieline.wire.shared.file_text import ShownFile, unwrap

MOST_KEPT = 1 << 20
"""So many characters of files are remembered in one run."""

_RANGE: frozenset[Role] = frozenset(["start", "range"])


class Extent(NamedTuple):
    """Which lines of which file."""

    path: str
    offset: int | None
    limit: int | None


class Reads:
    """What was read in a run: the last texts, and the files that were shown only in part."""

    def __init__(self) -> None:
        self._texts: dict[Extent, kinds.ReadSuccess] = {}
        self._size = 0
        self._partial: set[str] = set()

    def is_partial(self, path: str) -> bool:
        """Whether the last look at the whole file showed only a part of it."""
        return path in self._partial

    def last(self, extent: Extent) -> kinds.ReadSuccess | None:
        """What was read there the last time."""
        return self._texts.get(extent)

    def keep(self, extent: Extent, success: kinds.ReadSuccess) -> None:
        """Remember what was read; the oldest is forgotten first."""
        if extent.offset is None and extent.limit is None:
            (self._partial.add if success.truncated else self._partial.discard)(extent.path)
        self._forget(extent)
        if len(success.content) > MOST_KEPT // 4:
            return
        self._texts[extent] = success
        self._size += len(success.content)
        while self._size > MOST_KEPT:
            self._forget(next(iter(self._texts)))

    def _forget(self, extent: Extent) -> None:
        gone = self._texts.pop(extent, None)
        self._size -= len(gone.content) if gone is not None else 0


def extent_of(args: kinds.ReadArgs) -> Extent:
    """What is to be read."""
    offset = args.offset if args.HasField("offset") else None
    return Extent(args.path, offset, args.limit if args.HasField("limit") else None)


def read_result(
    args: kinds.ReadArgs, path: str, result: ToolResult, placed: frozenset[Role], reads: Reads
) -> kinds.ReadResult:
    """The typed result of a read; `path` is where the file really is."""
    image = next((found for part in result.content if (found := image_of(part))), None)
    if image is not None and not result.is_error:
        return kinds.ReadResult(success=kinds.ReadSuccess(path=path, data=image[0], file_size=len(image[0])))
    outcome = judge(result)
    if outcome.kind == "unchanged":
        last = reads.last(extent_of(args))
        if last is None:
            return kinds.ReadResult(error=kinds.ReadError(path=path, error=outcome.text))
        return kinds.ReadResult(success=last)
    if outcome.kind != "ok":
        return _unread(path, outcome)
    success = _read(args, path, unwrap(outcome.text), is_cut_by_tool=bool(placed & _RANGE or "count" in placed))
    reads.keep(extent_of(args), success)
    return kinds.ReadResult(success=success)


def _unread(path: str, outcome: Outcome) -> kinds.ReadResult:
    match outcome.kind:
        case "missing":
            return kinds.ReadResult(file_not_found=kinds.ReadFileNotFound(path=path))
        case "denied":
            return kinds.ReadResult(permission_denied=kinds.ReadPermissionDenied(path=path))
        case "rejected":
            return kinds.ReadResult(rejected=kinds.ReadRejected(path=path, reason=outcome.text))
        case "directory":
            reason = "Path is a directory, not a file"
            return kinds.ReadResult(invalid_file=kinds.ReadInvalidFile(path=path, reason=reason))
        case "binary":
            return kinds.ReadResult(invalid_file=kinds.ReadInvalidFile(path=path, reason=outcome.text))
        case _:
            return kinds.ReadResult(error=kinds.ReadError(path=path, error=outcome.text))


def _read(args: kinds.ReadArgs, path: str, shown: ShownFile, *, is_cut_by_tool: bool) -> kinds.ReadSuccess:
    text = shown.text
    if not shown.is_exact and not shown.is_cut and not is_cut_by_tool and text:
        # Shown line by line: nearly every text file ends its last line, and this one has to get its end back.
        text += "\n"
    content = text.replace("\r\n", "\n")
    lines = content.split("\n")
    size = len(text.encode())
    if is_cut_by_tool:
        total = max(shown.first - 1 + len(lines), shown.total or 0)
        is_cut = shown.is_cut and len(lines) < (args.limit or len(lines) + 1)
        return kinds.ReadSuccess(
            path=path, content=content, total_lines=total, file_size=size, truncated=is_cut, range_applied=True
        )
    picked = _picked(args, lines)
    return kinds.ReadSuccess(
        path=path,
        content=content if picked is None else "\n".join(picked),
        total_lines=max(len(lines), shown.total or 0),
        file_size=size,
        truncated=shown.is_cut,
        range_applied=picked is not None,
    )


def _picked(args: kinds.ReadArgs, lines: Sequence[str]) -> Sequence[str] | None:
    """The lines that were asked for; None for all of them, also when the first lies behind the end."""
    if not args.HasField("offset") and not args.HasField("limit"):
        return None
    start = max(len(lines) + args.offset, 0) if args.offset < 0 else max(args.offset - 1, 0)
    if start >= len(lines):
        return None
    return lines[start : start + args.limit] if args.limit else lines[start:]


def write_result(args: kinds.WriteArgs, path: str, result: ToolResult) -> kinds.WriteResult:
    """The typed result of a write: what was written is known from the exec itself."""
    outcome = judge(result)
    match outcome.kind:
        case "ok" | "unchanged":
            return kinds.WriteResult(success=_written(args, path))
        case "rejected":
            return kinds.WriteResult(rejected=kinds.WriteRejected(path=path, reason=outcome.text))
        case "denied":
            directory = path.rsplit("/", 1)[0] if "/" in path else ""
            denied = kinds.WritePermissionDenied(path=path, directory=directory, operation="write", error=outcome.text)
            return kinds.WriteResult(permission_denied=denied)
        case "no_space":
            return kinds.WriteResult(no_space=kinds.WriteNoSpace(path=path))
        case _:
            return kinds.WriteResult(error=kinds.WriteError(path=path, error=outcome.text))


def _written(args: kinds.WriteArgs, path: str) -> kinds.WriteSuccess:
    if args.file_bytes and not args.file_text:
        return kinds.WriteSuccess(path=path, file_size=len(args.file_bytes))
    text = args.file_text
    success = kinds.WriteSuccess(path=path, lines_created=text.count("\n") + 1, file_size=len(text.encode()))
    if args.return_file_content_after_write:
        success.file_content_after_write = text
    return success


def delete_result(path: str, result: ToolResult) -> kinds.DeleteResult:
    """The typed result of a deletion."""
    outcome = judge(result)
    match outcome.kind:
        case "ok" | "unchanged":
            return kinds.DeleteResult(success=kinds.DeleteSuccess(path=path, deleted_file=path))
        case "rejected":
            return kinds.DeleteResult(rejected=kinds.DeleteRejected(path=path, reason=outcome.text))
        case "missing":
            return kinds.DeleteResult(file_not_found=kinds.DeleteFileNotFound(path=path))
        case "directory":
            return kinds.DeleteResult(not_file=kinds.DeleteNotFile(path=path, actual_type="directory"))
        case "denied":
            denied = kinds.DeletePermissionDenied(path=path, client_visible_error=outcome.text)
            return kinds.DeleteResult(permission_denied=denied)
        case "busy":
            return kinds.DeleteResult(file_busy=kinds.DeleteFileBusy(path=path))
        case _:
            return kinds.DeleteResult(error=kinds.DeleteError(path=path, error=outcome.text))
