"""The search tools: search_files finds files by name, search_content finds lines by regular expression.

Ripgrep, or `search_fallback` if no recent ripgrep is found, only locates matches. It opens files by name, and a name
could be changed during the search to lead to another file. So every reported file is opened again through the
workspace, and the text shown is read from there. A line that differs from the reported one is not shown.
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
from tieline.tools.arguments import ToolDefinition
from tieline.tools.errors import ToolFailed
from tieline.tools.files import printable
from tieline.tools.globs import Glob
from tieline.tools.shell import OutputLimits, RunningCommand
from tieline.tools.workspace import OpenFile, Workspace, check_regular

TIMEOUT = 30.0
MAX_CONCURRENT = 4
MAX_WIDTH = 300
MAX_SHOWN = 100_000
"""Maximum number of characters in a result."""
MAX_READ = 256 << 20
"""Maximum total size in bytes of the files that are read to show matches."""
MAX_FOUND = 8 << 20
"""Maximum number of bytes that ripgrep may write: enough for thousands of lines, because it shortens long ones."""
MAX_FILE = "64M"
MIN_VERSION = 13
"""The first version of ripgrep that supports all the options used here."""
VERSION_TIMEOUT = 5.0

_PREVIEW = "512"
_VERSION = re.compile(rb"ripgrep (\d{1,4})\.")
_EVERYTHING = "**"
_FALLBACK_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from tieline.tools.search_fallback import main; sys.exit(main(sys.argv[1:]))"
)
_RECORD = re.compile(rb"(?:\./)?([^\0]+)\0(\d+):(\d+):(.*)", re.DOTALL)
_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]\Z")
_PLAIN_NAME = re.compile(r"[\w.*?-]+")


class SearchFiles(Value):
    """The arguments of search_files."""

    pattern: Annotated[
        str,
        Meta(min_length=1, max_length=1000, description="A path pattern, such as `*.py` or `src/**/test_*.{ts,tsx}`."),
    ]
    path: Annotated[
        str, Meta(max_length=4096, description="The directory to search, relative to the workspace. Default: its root.")
    ] = "."
    limit: Annotated[int, Meta(ge=1, le=1000, description="The maximum number of paths, up to 1000.")] = 200
    include_ignored: Annotated[bool, Meta(description="Include files that .gitignore excludes.")] = False


class SearchContent(Value):
    """The arguments of search_content."""

    pattern: Annotated[
        str, Meta(min_length=1, max_length=10_000, description="A regular expression that matches within a line.")
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
            max_length=1000,
            description="Search only files whose path matches this pattern, such as `*.py` or `src/**`.",
        ),
    ] = ""
    context: Annotated[int, Meta(ge=0, le=20, description="Lines to show before and after each match, up to 20.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="The maximum number of matching lines, up to 1000.")] = 100
    ignore_case: Annotated[bool, Meta(description="Ignore upper and lower case.")] = False
    literal: Annotated[bool, Meta(description="Treat the pattern as plain text, not as a regular expression.")] = False
    files_only: Annotated[bool, Meta(description="Return only the paths of files that match.")] = False
    include_ignored: Annotated[bool, Meta(description="Include files that .gitignore excludes.")] = False


SEARCH_FILES = ToolDefinition(
    "search_files",
    "Find files in the workspace by a path pattern. Files that .gitignore excludes are skipped.",
    SearchFiles,
)
SEARCH_CONTENT = ToolDefinition(
    "search_content",
    "Find lines in the files of the workspace by a regular expression. Binary files and files that .gitignore excludes "
    "are skipped.",
    SearchContent,
)


def find_ripgrep(search_path: str) -> str | None:
    """Return the path of ripgrep if a recent version is on `search_path` (a PATH), otherwise None.

    Run `rg --version` to find out its version.
    """
    folders = (folder for folder in search_path.split(os.pathsep) if folder.startswith("/"))
    found = shutil.which("rg", path=os.pathsep.join(folders))
    if found is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        ran = subprocess.run([found, "--version"], capture_output=True, timeout=VERSION_TIMEOUT, check=True, env={})  # noqa: S603 - found on the user's PATH
        version = _VERSION.match(ran.stdout)
        if version is not None and int(version[1]) >= MIN_VERSION:
            return found
    return None


class LineMatch(NamedTuple):
    """A match reported by the search program. `preview` is the beginning of the line; `column` counts bytes from 1."""

    line: int
    column: int
    preview: bytes


class WorkspaceSearch:
    """Searches a workspace. `hides` returns whether matches in a path must not be shown."""

    def __init__(self, workspace: Workspace, *, ripgrep: str | None, hides: Callable[[str], bool]) -> None:
        self._workspace = workspace
        self._ripgrep = ripgrep
        self._hides = hides
        self._running = asyncio.Semaphore(MAX_CONCURRENT)

    async def files(self, arguments: SearchFiles, workspace: Workspace) -> str:
        """Run search_files: return the matching paths as text. `workspace` is pinned to the folder to search."""
        glob = _glob(arguments.pattern)
        argv = self._files_argv(arguments)
        async with self._running:
            found = await self._find(argv, workspace, arguments.path or ".", separator=b"\0")
        return await asyncio.to_thread(self._paths, found, glob, arguments.limit)

    async def content(self, arguments: SearchContent, workspace: Workspace) -> str:
        """Run search_content: return the matches as text. `workspace` is pinned to the folder or file to search."""
        glob = _glob(arguments.files or _EVERYTHING)
        argv = self._lines_argv(arguments)
        async with self._running:
            found = await self._find(argv, workspace, arguments.path or ".", separator=b"\n")
        return await asyncio.to_thread(self._lines, found, glob, arguments)

    async def _find(self, argv: Sequence[str], workspace: Workspace, path: str, *, separator: bytes) -> "_Found":
        with ExitStack() as held:
            place = await asyncio.to_thread(held.enter_context, _search_root(workspace, path))
            argv = [*argv, place.only] if place.only else argv
            limits = OutputLimits(head=MAX_FOUND, tail=0, total=MAX_FOUND)
            command = await RunningCommand.start(argv, directory=place.directory, environment={}, limits=limits)
        outcome = await command.wait(TIMEOUT)
        output = command.stdout.head
        output = output[: output.rfind(separator) + 1]
        if not output and outcome.exit_code not in (0, 1) and not outcome.timed_out:
            raise ToolFailed(f"The search failed: {outcome.stderr.strip() or 'no error message'}")
        notes = [note for note in (_partial_note(outcome.timed_out, outcome.flooded),) if note]
        return _Found(place.base, output.split(separator)[:-1], notes)

    def _paths(self, found: "_Found", glob: Glob, limit: int) -> str:
        shown: list[str] = []
        for record in found.records:
            inside = os.fsdecode(record).removeprefix("./")
            path = found.path(inside)
            if not glob.matches(inside) or self._hides(path) or not self._is_without_links(path):
                continue
            if len(shown) == limit:
                found.notes.append(f"(the first {limit}; there are more: narrow the pattern)")
                break
            shown.append(printable(path))
        return "\n".join([*shown, *found.notes]) if shown else "\n".join(["No file matches.", *found.notes])

    def _is_without_links(self, path: str) -> bool:
        """Return whether the path is inside the workspace and no part of it is a link. It need not exist any more."""
        try:
            return self._workspace.locate(path) == path
        except ToolFailed:
            return False

    def _lines(self, found: "_Found", glob: Glob, arguments: SearchContent) -> str:
        result = _MatchReport(arguments)
        budget = MAX_READ
        for inside, matches in _grouped(found.records):
            path = found.path(inside)
            if not (glob.matches(inside) and not self._hides(path)):
                continue
            # Pinned, because `hides` judged this path, and a link may have replaced it since.
            with suppress(ToolFailed), self._workspace.pinned(path).open(path) as opened:
                budget -= opened.size
                result.add(path, opened, matches)
            if result.is_full or budget < 0:
                found.notes.append("(there is more: narrow the search with `path`, `files` or the pattern)")
                break
        return "\n".join([*(result.lines or ["No matches."]), *found.notes])

    def _files_argv(self, arguments: SearchFiles) -> list[str]:
        if self._ripgrep is None:
            return _fallback("files", "a" if arguments.include_ignored else "-", arguments.pattern)
        return [
            *self._common(include_ignored=arguments.include_ignored),
            *_named(arguments.pattern),
            "--files",
            "--null",
        ]

    def _lines_argv(self, arguments: SearchContent) -> list[str]:
        if self._ripgrep is None:
            flags = {"i": arguments.ignore_case, "F": arguments.literal, "a": arguments.include_ignored}
            given = "".join(flag for flag, is_set in flags.items() if is_set) or "-"
            return _fallback("lines", given, arguments.pattern, arguments.files or _EVERYTHING)
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
        """Convert `inside`, a path relative to the searched folder, to a path relative to the root of the workspace."""
        return inside if self.base == "." else f"{self.base}/{inside}"


class _SearchRoot(NamedTuple):
    directory: int
    base: str
    only: str


@contextmanager
def _search_root(workspace: Workspace, path: str) -> Iterator[_SearchRoot]:
    """Open the directory `path`. If `path` is a file, open its directory, to search only this file in it."""
    with workspace.resolve(path) as spot:
        found = workspace.lstat(spot)
        if found is not None and stat.S_ISDIR(found.st_mode):
            with workspace.directory(path) as inner:
                yield _SearchRoot(inner.directory, inner.path, "")
        else:
            check_regular(found, path)
            yield _SearchRoot(spot.directory, spot.path.rpartition("/")[0] or ".", f"./{spot.name}")


class _MatchReport:
    """Collects the lines of a search result until the result reaches its maximum size."""

    def __init__(self, arguments: SearchContent) -> None:
        self.lines: list[str] = []
        self.is_full = False
        self._context = arguments.context
        self._left = arguments.limit
        self._room = MAX_SHOWN
        self._files_only = arguments.files_only

    def add(self, path: str, opened: OpenFile, matches: Sequence[LineMatch]) -> None:
        """Add those reported matches that the opened file really contains."""
        text = _read_lines(opened, matches, self._context)
        real = [one for one in matches if one.line in text and text[one.line].startswith(one.preview)]
        if not real:
            return
        self._put(printable(path))
        if self._files_only:
            self._left -= 1
        else:
            self._show(real[: self._left], text)
            self._left -= len(real)
        self.is_full = self.is_full or self._left <= 0

    def _show(self, matches: Sequence[LineMatch], text: dict[int, bytes]) -> None:
        columns = {one.line: one.column for one in matches}
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


def _read_lines(opened: OpenFile, matches: Sequence[LineMatch], context: int) -> dict[int, bytes]:
    """Return the matching lines, and `context` lines before and after each of them, by line number."""
    wanted = {near for one in matches for near in range(one.line - context, one.line + context + 1)}
    last = max(wanted)
    found: dict[int, bytes] = {}
    for number, line in enumerate(opened.stream, 1):
        if number in wanted:
            found[number] = line.removesuffix(b"\n")
        if number >= last:
            break
    return found


def _window(line: bytes, column: int) -> str:
    """Return an excerpt of the line around the match, which starts at `column`."""
    start = max(0, column - 1 - MAX_WIDTH // 3) if len(line) > MAX_WIDTH else 0
    part = line[start : start + MAX_WIDTH].decode("utf-8", "replace").rstrip("\r")
    return f"{'…' if start else ''}{part}{'…' if start + MAX_WIDTH < len(line) else ''}"


def _grouped(records: Sequence[bytes]) -> Iterator[tuple[str, list[LineMatch]]]:
    """Group the reported matches by file, in order. Skip other output, such as warnings."""
    name, matches = b"", list[LineMatch]()
    for record in records:
        found = _RECORD.fullmatch(record)
        if found is None:
            continue
        if found[1] != name and matches:
            yield os.fsdecode(name), matches
            matches = []
        name = found[1]
        matches.append(LineMatch(int(found[2]), int(found[3]), _CUT.sub(b"", found[4].removesuffix(b"\r"))))
    if matches:
        yield os.fsdecode(name), matches


def _glob(pattern: str) -> Glob:
    try:
        return Glob.of(pattern)
    except ValueError as error:
        raise ToolFailed(f"the pattern `{pattern}` is not valid: {error}") from None


def _named(pattern: str) -> list[str]:
    """Return options that restrict ripgrep to files with a matching name, if it can express the pattern.

    The option `--glob` is not used, because it would include files that .gitignore excludes.
    """
    name = pattern.rpartition("/")[2]
    if not _PLAIN_NAME.fullmatch(name) or "**" in name or "{" in pattern or "\\" in pattern:
        return []
    return ["--type-add", f"wanted:{name}", "--type", "wanted"]


def _fallback(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-c", _FALLBACK_PROGRAM, str(Path(__file__).parents[2]), *arguments]


def _partial_note(timed_out: bool, flooded: bool) -> str:
    if timed_out:
        return f"(stopped after {TIMEOUT:.0f} seconds: there may be more; narrow the search)"
    return "(stopped because there are too many matches: narrow the search)" if flooded else ""
