"""The file tools: read_file, write_file, edit_file and list_directory.

Output is limited to a size that a model can handle; truncated output says how to read the remaining lines. Files are
written atomically. Edits work on bytes, so that the unedited parts of a file do not change, whatever its encoding.
"""

import base64
import os
from typing import Annotated, BinaryIO, NamedTuple

from msgspec import Meta

from tieline.model.content import Image, Text, Value
from tieline.model.events import Diff
from tieline.tools.arguments import ToolDefinition
from tieline.tools.diffs import excerpt
from tieline.tools.errors import ToolFailed
from tieline.tools.workspace import MAX_FILE, DirectoryEntry, OpenFile, Workspace

MAX_LINES = 2000
MAX_WIDTH = 2000
MAX_SHOWN = 200_000
"""Maximum number of characters in a page, the part of a file that one call returns."""
MAX_SCANNED = 64 << 20
"""Maximum number of bytes read to find the first line of a page."""
MAX_COUNTED = 4 << 20
"""Maximum number of bytes after a page that are read to count the remaining lines."""
MAX_IMAGE = 5 << 20
MAX_PLACES = 10
MAX_LISTED = 1000
SNIFFED = 8192

_PIECE = 64 << 10

Content = str | tuple[Text | Image, ...]


class FileChange(NamedTuple):
    """The result of a tool that changed a file: the text for the model, and the change if it can be shown."""

    message: str
    diff: Diff | None


FilePath = Annotated[
    str, Meta(min_length=1, max_length=4096, description="The file, relative to the workspace (or absolute inside it).")
]


class ReadFile(Value):
    """The arguments of read_file."""

    path: FilePath
    offset: Annotated[int, Meta(ge=1, description="The first line to show, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description="The number of lines to show, up to 2000.")] = MAX_LINES


class WriteFile(Value):
    """The arguments of write_file."""

    path: FilePath
    content: Annotated[str, Meta(description="The complete content of the file.")]


class EditFile(Value):
    """The arguments of edit_file."""

    path: FilePath
    old_text: Annotated[
        str,
        Meta(min_length=1, description="The text to replace, exactly as in the file, without line numbers."),
    ]
    new_text: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence. Otherwise the text must occur exactly once.")
    ] = False


class ListDirectory(Value):
    """The arguments of list_directory."""

    path: Annotated[
        str, Meta(max_length=4096, description="The directory, relative to the workspace. Default: its root.")
    ] = "."


READ_FILE = ToolDefinition(
    "read_file",
    "Read a text file in the workspace. Each line starts with its number and a tab. Long files come in pages: continue "
    "with `offset`. Images (PNG, JPEG, GIF, WebP) are returned as images.",
    ReadFile,
)
WRITE_FILE = ToolDefinition(
    "write_file",
    "Write a complete file, replacing an existing one; missing directories are created. To change part of a file use "
    "edit_file.",
    WriteFile,
)
EDIT_FILE = ToolDefinition(
    "edit_file",
    "Replace text in a file. `old_text` must occur in the file exactly once, so include enough lines around the "
    "change, or set `replace_all`.",
    EditFile,
)
LIST_DIRECTORY = ToolDefinition(
    "list_directory",
    "List a directory in the workspace. Directories end with a slash; files show their size, links their target.",
    ListDirectory,
)


def read(workspace: Workspace, arguments: ReadFile) -> Content:
    """Run read_file: return the requested lines of a file, or an image."""
    with workspace.open(arguments.path) as opened:
        start = opened.stream.read(SNIFFED)
        if media_type := image_type(start):
            return _image(opened, start, media_type)
        refuse_binary(start, opened)
        opened.stream.seek(0)
        page = _Page(arguments)
        page.fill(opened)
    return page.content(opened.path, opened.size)


def write(workspace: Workspace, arguments: WriteFile) -> FileChange:
    """Run write_file: write a complete file, and return the change."""
    if arguments.path.endswith("/"):
        raise ToolFailed(f"`{arguments.path}` names a directory; write_file needs the path of a file")
    data = arguments.content.encode("utf-8", "replace")
    path, is_new, before = workspace.write(arguments.path, data)
    message = f"{'Created' if is_new else 'Replaced'} `{path}` ({len(data)} bytes)."
    is_known = is_new or before is not None
    return FileChange(message, excerpt(before, data, path) if is_known else None)


def edit(workspace: Workspace, arguments: EditFile) -> FileChange:
    """Run edit_file: replace text in a file, and return the change."""
    before = after = b""
    lines: list[int] = []

    def change(data: bytes) -> bytes:
        nonlocal before, after, lines
        before = data
        after, lines = apply_edit(data, arguments)
        return after

    path = workspace.edit(arguments.path, change)
    return FileChange(
        f"Replaced {_occurrence_count(len(lines))} in `{path}`, {_at_lines(lines)}.", excerpt(before, after, path)
    )


def apply_edit(data: bytes, arguments: EditFile) -> tuple[bytes, list[int]]:
    """Return the edited file and the numbers of the changed lines. Raise ToolFailed if the edit cannot be applied."""
    if b"\0" in data[:SNIFFED]:
        raise ToolFailed(f"`{arguments.path}` is a binary file and cannot be edited as text")
    old, new = (text.encode("utf-8", "replace") for text in (arguments.old_text, arguments.new_text))
    if old == new:
        raise ToolFailed("`old_text` and `new_text` are the same: there is nothing to change")
    old, new = _match_line_endings(data, old, new)
    places = _occurrences(data, old, is_overlapping=not arguments.replace_all)
    if not places:
        raise ToolFailed(_not_found(data, arguments))
    if len(places) > 1 and not arguments.replace_all:
        raise ToolFailed(
            f"`old_text` occurs {len(places)} times in `{arguments.path}`, {_at_lines(places)}. Nothing was changed: "
            "add lines around it until it occurs once, or set `replace_all` to change them all."
        )
    if len(data) + len(places) * (len(new) - len(old)) > MAX_FILE:
        raise ToolFailed(f"the file would have more than {MAX_FILE} bytes afterwards. Nothing was changed.")
    return data.replace(old, new), places


def list_directory(workspace: Workspace, arguments: ListDirectory) -> Content:
    """Run list_directory: return one line for each entry, directories first."""
    entries = sorted(
        workspace.entries(arguments.path or "."), key=lambda entry: (entry.kind != "directory", entry.name)
    )
    if not entries:
        return "(the directory is empty)"
    lines = [_entry_line(entry) for entry in entries[:MAX_LISTED]]
    if len(entries) > MAX_LISTED:
        lines.append(f"… at least {len(entries) - MAX_LISTED} more; use search_files to find a name")
    return "\n".join(lines)


def image_type(start: bytes) -> str | None:
    """Return the media type of an image that begins with these bytes, or None if they do not begin a known image."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def refuse_binary(start: bytes, opened: OpenFile) -> None:
    """Raise ToolFailed if a file is not text, judging by its first bytes."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolFailed(f"`{opened.path}` is UTF-16 text; convert it with run_terminal (iconv) to read it")
    if start.startswith(b"%PDF-") or b"\0" in start:
        kind = "a PDF" if start.startswith(b"%PDF-") else "a binary file"
        raise ToolFailed(f"`{opened.path}` is {kind} of {opened.size} bytes and cannot be shown as text")


def printable(name: str) -> str:
    """Return a file name as valid text, with undecodable bytes replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Page:
    """The requested lines of a file, or as many of them as the limits allow."""

    def __init__(self, arguments: ReadFile) -> None:
        self.first = arguments.offset
        self.end = arguments.offset + arguments.limit
        self.lines: list[str] = []
        self.room = MAX_SHOWN
        self.number = 0
        """The number of the last line read. At the end of the file, it is the total number of lines."""
        self.scanned = 0
        self.is_complete = False
        self.is_clean = True

    def fill(self, opened: OpenFile) -> None:
        """Read the lines of the page. If little of the file follows, also count the lines after the page."""
        stream = opened.stream
        if not self.skip(stream):
            return
        while self.number < self.end - 1 and self.room > 0:
            line, length = self.line(stream)
            if not line:
                self.is_complete = True
                return
            self.number += 1
            self.show(line, length)
            if self.scanned > MAX_SCANNED:
                return
        self.count(stream)

    def skip(self, stream: BinaryIO) -> bool:
        """Skip to the first line of the page. Return whether it was found within MAX_SCANNED bytes."""
        scanned, is_open = 0, False
        while (missing := self.first - 1 - self.number) and scanned < MAX_SCANNED:
            piece = stream.read(min(_PIECE, MAX_SCANNED - scanned))
            if not piece:
                self.number += is_open
                self.is_complete = True
                return False
            scanned += len(piece)
            found = piece.count(b"\n")
            if found >= missing:
                stream.seek(_end_of_line(piece, missing) - len(piece), os.SEEK_CUR)
            self.number += min(found, missing)
            is_open = not piece.endswith(b"\n")
        return not missing

    def line(self, stream: BinaryIO) -> tuple[bytes, int]:
        """Return the beginning of the next line and its full length, or b"" and 0 at the end of the file."""
        line = stream.readline(_PIECE)
        length = len(line)
        while line and not line.endswith(b"\n") and self.scanned + length <= MAX_SCANNED:
            if not (more := stream.readline(_PIECE)):
                break
            length += len(more)
            line = line[: _PIECE - 1] + more[-1:]
        self.scanned += length
        return line, length

    def count(self, stream: BinaryIO) -> None:
        """Count the lines after the page, unless more than MAX_COUNTED bytes follow it."""
        rest = stream.read(MAX_COUNTED + 1)
        if len(rest) <= MAX_COUNTED:
            self.number += rest.count(b"\n") + (bool(rest) and not rest.endswith(b"\n"))
            self.is_complete = True

    def show(self, line: bytes, length: int) -> None:
        text = line[: 4 * MAX_WIDTH + 4].decode("utf-8", "replace").rstrip("\r\n")
        self.is_clean &= "\ufffd" not in text[:MAX_WIDTH]
        if len(text) > MAX_WIDTH:
            bound = "more than " if self.scanned > MAX_SCANNED else ""
            text = f"{text[:MAX_WIDTH]}… (the line has {bound}{length} bytes)"
        self.lines.append(f"{self.number}\t{text}")
        self.room -= len(text)

    def content(self, path: str, size: int) -> Content:
        """Return the lines, followed by notes about them as separate texts. `path` and `size` are used in messages."""
        if self.is_complete and not self.number:
            return "(the file is empty)"
        if not self.lines and not self.is_complete:
            raise ToolFailed(f"`{path}` is too large to find line {self.first}; use search_content or run_terminal")
        if not self.lines:
            raise ToolFailed(f"`{path}` has {self.number} lines; there is no line {self.first}")
        last = self.first + len(self.lines) - 1
        notes = []
        if last < self.number or not self.is_complete:
            total = f" of {self.number}" if self.is_complete else f" of a file of {size} bytes"
            notes.append(f"(lines {self.first} to {last}{total}; continue with offset {last + 1})")
        if not self.is_clean:
            notes.append("(the file is not valid UTF-8; undecodable bytes are shown as \ufffd)")
        return tuple(Text(text=text) for text in ("\n".join(self.lines), *notes))


def _end_of_line(piece: bytes, number: int) -> int:
    """Return the offset in `piece` at which the line with this number ends. Lines are counted from 1."""
    at = 0
    for _ in range(number):
        at = piece.index(b"\n", at) + 1
    return at


def _image(opened: OpenFile, start: bytes, media_type: str) -> Content:
    if opened.size > MAX_IMAGE:
        raise ToolFailed(f"`{opened.path}` is an image of {opened.size} bytes; at most {MAX_IMAGE} can be shown")
    data = start + opened.stream.read(opened.size)
    return (Image(media_type=media_type, data=base64.b64encode(data[: opened.size]).decode()),)


def _match_line_endings(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Convert `old` and `new` to the line endings of the file. Models do not see line endings and write `\\n`."""
    if b"\r\n" not in data:
        return old, new
    if b"\r" not in old and old not in data:
        old = old.replace(b"\n", b"\r\n")
    elif data.count(b"\n") != data.count(b"\r\n"):
        return old, new
    return old, new if b"\r" in new else new.replace(b"\n", b"\r\n")


def _occurrences(data: bytes, wanted: bytes, *, is_overlapping: bool) -> list[int]:
    """Return the line number of each occurrence of `wanted`. Include overlapping ones if `is_overlapping`."""
    found: list[int] = []
    line, at, step = 1, 0, 1 if is_overlapping else len(wanted)
    while (place := data.find(wanted, at)) >= 0:
        line += data.count(b"\n", at, place)
        found.append(line)
        at = place + step
        line += data.count(b"\n", place, at)
    return found


def _not_found(data: bytes, arguments: EditFile) -> str:
    """Return the error for an edit whose `old_text` does not occur in the file. Mention similar text, if any."""
    message = f"`old_text` does not occur in `{arguments.path}`. Nothing was changed."
    lines = [" ".join(line.split()) for line in data.decode("utf-8", "replace").splitlines()]
    wanted = [" ".join(line.split()) for line in arguments.old_text.strip().splitlines()]
    if wanted and wanted[0]:
        for at, line in enumerate(lines):
            if line == wanted[0] and lines[at : at + len(wanted)] == wanted:
                return f"{message} It differs from the text at line {at + 1} only in white space: read that again."
        near = [number for number, line in enumerate(lines, 1) if line == wanted[0]]
        if near:
            return f"{message} Its first line occurs {_at_lines(near)}, but the lines after it differ."
    return f"{message} Read the file again and copy the text exactly."


def _occurrence_count(count: int) -> str:
    return "1 occurrence" if count == 1 else f"{count} occurrences"


def _at_lines(lines: list[int]) -> str:
    """Return line numbers as text. A long list is shortened."""
    listed = ", ".join(str(line) for line in lines[:MAX_PLACES])
    more = f" and {len(lines) - MAX_PLACES} more" if len(lines) > MAX_PLACES else ""
    return f"at line{'' if len(lines) == 1 else 's'} {listed}{more}"


def _entry_line(entry: DirectoryEntry) -> str:
    name = printable(entry.name)
    match entry.kind:
        case "directory":
            return f"{name}/"
        case "link":
            return f"{name} -> {printable(entry.target)}"
        case "file":
            return f"{name} ({entry.size} bytes)"
        case _:
            return f"{name} (special)"
