"""Typed results of reading, writing and deleting files with the client's tools.

To edit a file, Cursor reads all of it and writes all of it back. Line numbers or notes that the client's tool adds
would therefore end up in the file, and parts that the tool omits would be lost. So text that the tool added is removed,
and a file that was shown only in part is not overwritten. If the tool reports that a file is unchanged since the last
read, the result is the text of the last read.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import ToolResult
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor.execs.outcome import ToolOutcome, image_of, judge
from tieline.wire.shared.capabilities import Role
from tieline.wire.shared.file_text import ShownFile, unwrap

MAX_KEPT = 1 << 20
"""The maximum number of characters of file content that one run keeps in total."""
MAX_FILES = 4096
"""The maximum number of read results that one run keeps."""

_RANGE: frozenset[Role] = frozenset(["start", "range"])


class Extent(NamedTuple):
    """A range of lines in a file; the whole file if `offset` and `limit` are None."""

    path: str
    offset: int | None
    limit: int | None


class FileReads:
    """The results of a run's file reads, and the paths of the files that were shown only in part.

    All paths are absolute, unless the workspace is unknown.
    """

    def __init__(self) -> None:
        self._texts: BoundedCache[Extent, kinds.ReadSuccess] = BoundedCache(
            MAX_FILES, max_weight=MAX_KEPT, max_each=MAX_KEPT // 4
        )
        self._partial: set[str] = set()

    def is_partial(self, path: str) -> bool:
        """Return whether the client's tool showed only a part of the file when the whole file was last requested."""
        return path in self._partial

    def last(self, extent: Extent) -> kinds.ReadSuccess | None:
        """Return the result of the last read of this range.

        Return None if the range was not read, or if the result was dropped to save memory.
        """
        return self._texts.get(extent)

    def keep(self, extent: Extent, success: kinds.ReadSuccess) -> None:
        """Keep the result of a read."""
        if extent.offset is None and extent.limit is None:
            (self._partial.add if success.truncated else self._partial.discard)(extent.path)
        self._texts.put(extent, success, len(success.content))

    def forget(self, path: str) -> None:
        """Forget what was read of a file, because the file was replaced or is gone."""
        self._partial.discard(path)
        for extent in [extent for extent in self._texts if extent.path == path]:
            self._texts.pop(extent)


def extent_of(args: kinds.ReadArgs, path: str) -> Extent:
    """Return the range of lines that a read exec requests. `path` is the absolute path of the file."""
    offset = args.offset if args.HasField("offset") else None
    return Extent(path, offset, args.limit if args.HasField("limit") else None)


def read_result(
    args: kinds.ReadArgs, path: str, result: ToolResult, placed: frozenset[Role], reads: FileReads
) -> kinds.ReadResult:
    """Return the typed result of a read, and keep it in `reads`.

    `path` is the absolute path of the file. `placed` contains the roles (see `wire.shared.capabilities`) of the values
    that were passed to the client's tool; they show whether the tool was asked for a range of lines.
    """
    image = next((found for part in result.content if (found := image_of(part))), None)
    if image is not None and not result.is_error:
        return kinds.ReadResult(success=kinds.ReadSuccess(path=path, data=image[0], file_size=len(image[0])))
    outcome = judge(result)
    if outcome.kind == "unchanged":
        last = reads.last(extent_of(args, path))
        if last is None:
            return kinds.ReadResult(error=kinds.ReadError(path=path, error=outcome.text))
        return kinds.ReadResult(success=last)
    if outcome.kind == "missing":
        reads.forget(path)
    if outcome.kind != "ok":
        return _unread(path, outcome)
    success = _read(args, path, unwrap(outcome.text), is_cut_by_tool=bool(placed & _RANGE or "count" in placed))
    reads.keep(extent_of(args, path), success)
    return kinds.ReadResult(success=success)


def _unread(path: str, outcome: ToolOutcome) -> kinds.ReadResult:
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
        # Line-by-line output loses the final newline, which nearly every text file has.
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
    """Return the requested lines of a file.

    Return None if all lines are requested, or if the requested range begins after the last line.
    """
    if not args.HasField("offset") and not args.HasField("limit"):
        return None
    start = max(len(lines) + args.offset, 0) if args.offset < 0 else max(args.offset - 1, 0)
    if start >= len(lines):
        return None
    return lines[start : start + args.limit] if args.limit else lines[start:]


def write_result(args: kinds.WriteArgs, path: str, result: ToolResult, reads: FileReads) -> kinds.WriteResult:
    """Return the typed result of a write. `path` is the absolute path; `args` contains the text that was written."""
    outcome = judge(result)
    match outcome.kind:
        case "ok" | "unchanged":
            reads.forget(path)
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


def delete_result(path: str, result: ToolResult, reads: FileReads) -> kinds.DeleteResult:
    """Return the typed result of a deletion. `path` is the absolute path of the file."""
    outcome = judge(result)
    if outcome.kind in ("ok", "unchanged", "missing"):
        reads.forget(path)
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
