"""Finding files by name and lines by regular expression.

Ripgrep, or what stands in for it, only says where something is. It walks by names, and names can be swapped while it
walks; so every place it names is opened anew through the workspace, and the text that is shown is read there. A line
that is not there as it was reported is not shown.
"""

import asyncio
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta

from tieline.model.content import Value
from tieline.tools.arguments import Form
from tieline.tools.errors import ToolFailed
from tieline.tools.files import printable
from tieline.tools.globs import Glob
from tieline.tools.shell import Command, Keep
from tieline.tools.workspace import Opened, Workspace, check_regular

SECONDS = 30.0
AT_ONCE = 4
MAX_WIDTH = 300
MAX_SHOWN = 100_000
"""Characters of a result."""
MAX_READ = 256 << 20
"""Bytes that are read to show what was found."""
MAX_FOUND = 8 << 20
"""Bytes that ripgrep may write; each line it reports is cut, so these are many thousands."""
MAX_FILE = "64M"
OLDEST = 13
"""The first version of ripgrep that has all the options we use."""
VERSION_WAIT = 5.0

_PREVIEW = "512"
_VERSION = re.compile(rb"ripgrep (\d{1,4})\.")
_EVERYTHING = "**"
_STAND_IN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from tieline.tools.seek import main; sys.exit(main(sys.argv[1:]))"
)
_RECORD = re.compile(rb"(?:\./)?([^\0]+)\0(\d+):(\d+):(.*)", re.DOTALL)
_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]\Z")
_PLAIN_NAME = re.compile(r"[\w.*?-]+")


class SearchFiles(Value):
    """The arguments of search_files."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1, max_length=1000, description="A pattern of paths, such as `*.py`, `src/**/test_*.{ts,tsx}`."
        ),
    ]
    path: Annotated[
        str, Meta(max_length=4096, description="The directory to search, relative to the workspace. Default: its root.")
    ] = "."
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many paths to give, up to 1000.")] = 200
    include_ignored: Annotated[bool, Meta(description="Also look at what .gitignore leaves out.")] = False


class SearchContent(Value):
    """The arguments of search_content."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=10_000, description="A regular expression; it has to match within a line.")
    ]
    path: Annotated[
        str,
        Meta(
            max_length=4096,
            description="The directory or file to search, relative to the workspace. Default: its root.",
        ),
    ] = "."
    files: Annotated[
        str,
        Meta(
            max_length=1000, description="Search only files whose path fits this pattern, such as `*.py` or `src/**`."
        ),
    ] = ""
    context: Annotated[int, Meta(ge=0, le=20, description="Lines to show before and after each match, up to 20.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many matching lines to give, up to 1000.")] = 100
    ignore_case: Annotated[bool, Meta(description="Take upper and lower case for the same.")] = False
    literal: Annotated[bool, Meta(description="Take the pattern as plain text, not as a regular expression.")] = False
    files_only: Annotated[bool, Meta(description="Give only the paths of files that match.")] = False
    include_ignored: Annotated[bool, Meta(description="Also look at what .gitignore leaves out.")] = False


SEARCH_FILES = Form(
    "search_files",
    "Find files of the workspace by a pattern of their path. What .gitignore leaves out is left out.",
    SearchFiles,
)
SEARCH_CONTENT = Form(
    "search_content",
    "Find lines in the files of the workspace by a regular expression. What .gitignore leaves out and binary files are "
    "left out.",
    SearchContent,
)


def find_ripgrep(search_path: str) -> str | None:
    """Return the first ripgrep on this PATH that runs and is new enough; None if there is none. Blocks for a moment."""
    folders = (folder for folder in search_path.split(os.pathsep) if folder.startswith("/"))
    found = shutil.which("rg", path=os.pathsep.join(folders))
    if found is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run([found, "--version"], capture_output=True, timeout=VERSION_WAIT, check=True, env={})  # noqa: S603 - found on the user's PATH
        version = _VERSION.match(told.stdout)
        if version is not None and int(version[1]) >= OLDEST:
            return found
    return None


class Hit(NamedTuple):
    """A line that is said to match. `preview` is how it is said to begin; `column` counts bytes from 1."""

    line: int
    column: int
    preview: bytes


class Finder:
    """Searches a workspace. `hides` tells which paths must not be shown even if something is found there."""

    def __init__(self, workspace: Workspace, *, ripgrep: str | None, hides: Callable[[str], bool]) -> None:
        self._workspace = workspace
        self._ripgrep = ripgrep
        self._hides = hides
        self._running = asyncio.Semaphore(AT_ONCE)

    async def files(self, arguments: SearchFiles, workspace: Workspace) -> str:
        """What search_files answers; `workspace` is ours, pinned to the folder to search."""
        glob = _glob(arguments.pattern)
        argv = self._files_argv(arguments)
        async with self._running:
            found = await self._find(argv, workspace, arguments.path or ".", separator=b"\0")
        return await asyncio.to_thread(self._paths, found, glob, arguments.limit)

    async def content(self, arguments: SearchContent, workspace: Workspace) -> str:
        """What search_content answers; `workspace` is ours, pinned to the place to search."""
        glob = _glob(arguments.files or _EVERYTHING)
        argv = self._lines_argv(arguments)
        async with self._running:
            found = await self._find(argv, workspace, arguments.path or ".", separator=b"\n")
        return await asyncio.to_thread(self._lines, found, glob, arguments)

    async def _find(self, argv: Sequence[str], workspace: Workspace, path: str, *, separator: bytes) -> "_Found":
        with ExitStack() as held:
            place = await asyncio.to_thread(held.enter_context, _place(workspace, path))
            argv = [*argv, place.only] if place.only else argv
            keep = Keep(head=MAX_FOUND, tail=0, total=MAX_FOUND)
            command = await Command.start(argv, directory=place.directory, environment={}, keep=keep)
        outcome = await command.wait(SECONDS)
        output = command.stdout.head
        output = output[: output.rfind(separator) + 1]
        if not output and outcome.exit_code not in (0, 1) and not outcome.timed_out:
            raise ToolFailed(f"The search failed: {outcome.stderr.strip() or 'no reason was given'}")
        notes = [note for note in (_partial_note(outcome.timed_out, outcome.flooded),) if note]
        return _Found(place.base, output.split(separator)[:-1], notes)

    def _paths(self, found: "_Found", glob: Glob, limit: int) -> str:
        shown: list[str] = []
        for record in found.records:
            inside = os.fsdecode(record).removeprefix("./")
            path = found.path(inside)
            if not glob.matches(inside) or self._hides(path) or not self._is_there(path):
                continue
            if len(shown) == limit:
                found.notes.append(f"(the first {limit}; there are more: narrow the pattern)")
                break
            shown.append(printable(path))
        return "\n".join([*shown, *found.notes]) if shown else "\n".join(["No file matches.", *found.notes])

    def _is_there(self, path: str) -> bool:
        """Whether the path leads to itself: no part of it is a link by now."""
        try:
            return self._workspace.locate(path) == path
        except ToolFailed:
            return False

    def _lines(self, found: "_Found", glob: Glob, arguments: SearchContent) -> str:
        result = _Result(arguments)
        budget = MAX_READ
        for inside, hits in _grouped(found.records):
            path = found.path(inside)
            if not (glob.matches(inside) and not self._hides(path)):
                continue
            # Pinned: what is hidden was decided by this path, and a link may have taken its place.
            with suppress(ToolFailed), self._workspace.pinned(path).open(path) as opened:
                budget -= opened.size
                result.add(path, opened, hits)
            if result.is_full or budget < 0:
                found.notes.append("(there is more: narrow the search with `path`, `files` or the pattern)")
                break
        return "\n".join([*(result.lines or ["No matches."]), *found.notes])

    def _files_argv(self, arguments: SearchFiles) -> list[str]:
        if self._ripgrep is None:
            return _stand_in("files", "a" if arguments.include_ignored else "-", arguments.pattern)
        return [
            *self._common(include_ignored=arguments.include_ignored),
            *_named(arguments.pattern),
            "--files",
            "--null",
        ]

    def _lines_argv(self, arguments: SearchContent) -> list[str]:
        if self._ripgrep is None:
            flags = {"i": arguments.ignore_case, "F": arguments.literal, "a": arguments.include_ignored}
            said = "".join(flag for flag, is_set in flags.items() if is_set) or "-"
            return _stand_in("lines", said, arguments.pattern, arguments.files or _EVERYTHING)
        argv = self._common(include_ignored=arguments.include_ignored)
        argv += ["--with-filename", "--no-heading", "--null", "--line-number", "--column", "--crlf"]
        argv += ["--max-columns", _PREVIEW, "--max-columns-preview", "--encoding", "none", "--max-filesize", MAX_FILE]
        argv += ["--max-count", "1" if arguments.files_only else str(arguments.limit)]
        argv += ["--ignore-case"] if arguments.ignore_case else []
        argv += ["--fixed-strings"] if arguments.literal else []
        return [*argv, *_named(arguments.files), f"--regexp={arguments.pattern}", "--"]

    def _common(self, *, include_ignored: bool) -> list[str]:
        ignoring = ["--no-ignore"] if include_ignored else ["--no-require-git", "--no-ignore-global"]
        own = ["--no-config", "--color=never", "--sort=path", "--hidden", "--glob=!.git"]
        return [self._ripgrep or "rg", *own, *ignoring]


class _Found(NamedTuple):
    base: str
    records: list[bytes]
    notes: list[str]

    def path(self, inside: str) -> str:
        """A path that was found, from the root of the workspace."""
        return inside if self.base == "." else f"{self.base}/{inside}"


class _Place(NamedTuple):
    directory: int
    base: str
    only: str


@contextmanager
def _place(workspace: Workspace, path: str) -> Iterator[_Place]:
    """Where to search: a directory, or one file in it."""
    with workspace.reach(path) as spot:
        found = workspace.look(spot)
        if found is not None and stat.S_ISDIR(found.st_mode):
            with workspace.directory(path) as inner:
                yield _Place(inner.directory, inner.path, "")
        else:
            check_regular(found, path)
            yield _Place(spot.directory, spot.path.rpartition("/")[0] or ".", f"./{spot.name}")


class _Result:
    """What was found, as lines to show."""

    def __init__(self, arguments: SearchContent) -> None:
        self.lines: list[str] = []
        self.is_full = False
        self._context = arguments.context
        self._left = arguments.limit
        self._room = MAX_SHOWN
        self._files_only = arguments.files_only

    def add(self, path: str, opened: Opened, hits: Sequence[Hit]) -> None:
        """Show the hits of a file that are there."""
        text = _read_lines(opened, hits, self._context)
        true = [hit for hit in hits if text.get(hit.line, b"").startswith(hit.preview) and hit.line in text]
        if not true:
            return
        if self._files_only:
            self._put(printable(path))
            self._left -= 1
        else:
            self._put(printable(path))
            self._show(true[: self._left], text)
            self._left -= len(true)
        self.is_full = self.is_full or self._left <= 0

    def _show(self, hits: Sequence[Hit], text: dict[int, bytes]) -> None:
        columns = {hit.line: hit.column for hit in hits}
        around = {near for line in columns for near in range(line - self._context, line + self._context + 1)}
        before = 0
        for line in sorted(around & text.keys()):
            if before and self._context and line > before + 1:
                self._put("  --")
            mark = ":" if line in columns else "-"
            self._put(f"  {line}{mark} {_window(text[line], columns.get(line, 1))}")
            before = line

    def _put(self, line: str) -> None:
        self._room -= len(line)
        if self._room < 0:
            self.is_full = True
        else:
            self.lines.append(line)


def _read_lines(opened: Opened, hits: Sequence[Hit], context: int) -> dict[int, bytes]:
    """The lines of the hits and those around them, by their number."""
    wanted = {near for hit in hits for near in range(hit.line - context, hit.line + context + 1)}
    last = max(wanted)
    found: dict[int, bytes] = {}
    for number, line in enumerate(opened.stream, 1):
        if number in wanted:
            found[number] = line.removesuffix(b"\n")
        if number >= last:
            break
    return found


def _window(line: bytes, column: int) -> str:
    """The part of a line that shows the match."""
    start = max(0, column - 1 - MAX_WIDTH // 3) if len(line) > MAX_WIDTH else 0
    part = line[start : start + MAX_WIDTH].decode("utf-8", "replace").rstrip("\r")
    return f"{'…' if start else ''}{part}{'…' if start + MAX_WIDTH < len(line) else ''}"


def _grouped(records: Sequence[bytes]) -> Iterator[tuple[str, list[Hit]]]:
    """The hits of each file, in order; what is not a hit (a warning) is skipped."""
    name, hits = b"", list[Hit]()
    for record in records:
        found = _RECORD.fullmatch(record)
        if found is None:
            continue
        if found[1] != name and hits:
            yield os.fsdecode(name), hits
            hits = []
        name = found[1]
        hits.append(Hit(int(found[2]), int(found[3]), _CUT.sub(b"", found[4].removesuffix(b"\r"))))
    if hits:
        yield os.fsdecode(name), hits


def _glob(pattern: str) -> Glob:
    try:
        return Glob.of(pattern)
    except ValueError as error:
        raise ToolFailed(f"the pattern `{pattern}` cannot be read: {error}") from None


def _named(pattern: str) -> list[str]:
    """Let ripgrep skip files by their name. (Its own patterns would bring back what .gitignore leaves out.)"""
    name = pattern.rpartition("/")[2]
    if not _PLAIN_NAME.fullmatch(name) or "**" in name or "{" in pattern or "\\" in pattern:
        return []
    return ["--type-add", f"wanted:{name}", "--type", "wanted"]


def _stand_in(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-c", _STAND_IN, str(Path(__file__).parents[2]), *arguments]


def _partial_note(timed_out: bool, flooded: bool) -> str:
    if timed_out:
        return f"(stopped after {SECONDS:.0f} seconds: there may be more; narrow the search)"
    return "(stopped because far too much was found: narrow the search)" if flooded else ""
