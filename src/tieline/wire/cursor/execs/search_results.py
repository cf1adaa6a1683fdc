"""Parse the output of a client's search tool: matching lines, files or counts.

Tools return lines such as `path:line:text`, file names as headings above numbered lines, a list of files, or counts.
The result has the output mode that the service requested, if the tool's output allows it. Otherwise, for example if the
service requested lines but the tool returned only file names, the result has the mode of the output, and says which one
that is.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import Literal, NamedTuple, cast

from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds

Mode = Literal["content", "files_with_matches", "count"]

MAX_LINES = 20_000
"""The maximum number of output lines that are parsed. Further lines are ignored."""

MAX_PATTERNS = 200
"""The maximum number of patterns to which a glob with braces is expanded. If there are more, all files match."""

_NOTHING = re.compile(
    r"\s*(?:0 (?:matches|results|files)|found 0 |no (?:\w+ ){0,2}(?:matches|matching|files|results|occurrences)\b)",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"Found \d+|\(.{0,300}\)\s*$|\[.{0,300}\]\s*$|-{2,}\s*$|│-{2,}|</?workspace_result|Searching |Search results? |"
    r"\d+ (?:matches|results|files)\b",
    re.IGNORECASE,
)
_CUT = re.compile(r"truncated|showing (?:first|results with pagination|\d)|limit (?:of \d+ )?reached", re.IGNORECASE)
_FILE = r"(?:[A-Za-z]:[\\/])?[^:\n]{1,1000}?"
_MATCH = re.compile(rf"(?P<file>{_FILE}):(?P<line>\d{{1,9}}):(?P<text>.*)", re.DOTALL)
_COUNT = re.compile(rf"(?P<file>{_FILE}):(?P<count>\d{{1,9}})\s*")
_NUMBERED = re.compile(
    r"\s{0,8}(?:Line |L)(?P<a>\d{1,9})(?P<mark>[:-]) ?(?P<words>.*)|(?P<b>\d{1,9})(?P<sign>[:-])(?P<text>.*)"
    r"|\s{0,8}(?P<c>\d{1,9}) ?\| ?(?P<beside>.*)",
    re.DOTALL,
)
_HEADING = re.compile(r"(?:File: |# )(?P<named>.{1,1000}?):?\s*$|(?P<path>\S.{0,1000}?):\s*$")


class SearchHit(NamedTuple):
    """A matching line, or a context line near a match."""

    line: int
    text: str
    is_context: bool = False


class SearchOutput(NamedTuple):
    """The parsed output of a search tool.

    At most one of `hits`, `files` and `counts` is filled. `is_cut` says whether the tool omitted some matches.
    """

    hits: dict[str, list[SearchHit]]
    files: list[str]
    counts: dict[str, int]
    is_cut: bool = False


class Search(NamedTuple):
    """A search that the service requested. Files in the result are named relative to `root`."""

    pattern: str
    path: str
    mode: Mode
    root: str = ""
    context: bool = False
    glob: str = ""
    """The glob that files must match to be included in the result; empty if the tool itself has filtered the files."""


def result(search: Search, text: str) -> kinds.GrepResult:
    """Convert `text`, the output of a search tool, to a typed result. Text that cannot be parsed becomes an error."""
    shown = read(text, search)
    if shown.files and not _is_path(shown.files[0]):
        return kinds.GrepResult(error=kinds.GrepError(error=text))
    found = _kept(shown, search.glob)
    mode = _mode(search.mode, found)
    union = {"content": _content, "files_with_matches": _files, "count": _counts}[mode](found, search)
    success = kinds.GrepSuccess(pattern=search.pattern, path=search.path, output_mode=mode)
    success.workspace_results[search.root or search.path or "."].CopyFrom(union)
    return kinds.GrepResult(success=success)


def read(text: str, search: Search) -> SearchOutput:
    """Parse the output of a search tool."""
    lines = [line.removesuffix("\r") for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
    is_cut = len(lines) == MAX_LINES or any(_NOTE.match(line) and _CUT.search(line) for line in lines)
    if _NOTHING.match(text):
        return SearchOutput({}, [], {}, is_cut)
    shown = [line for line in lines if not _NOTE.match(line)]
    if search.mode == "count" and (counts := dict(_counted(shown, search.path))):
        return SearchOutput({}, [], counts, is_cut)
    hits = _hits(shown, search)
    files = [] if hits else [line.strip().removeprefix("- ") for line in shown if line.strip()]
    return SearchOutput(hits, files, {}, is_cut)


def _counted(lines: Iterable[str], path: str) -> Iterator[tuple[str, int]]:
    """Yield file names and counts up to the first line that is not a count. A bare number is the count for `path`."""
    for line in filter(str.strip, lines):
        if line.strip().isdecimal() and path:
            yield path, int(line.strip()[:9])
        elif (found := _COUNT.fullmatch(line)) and not found["file"].isspace():
            yield found["file"].strip(), int(found["count"])
        else:
            return


def _hits(lines: Sequence[str], search: Search) -> dict[str, list[SearchHit]]:
    """Return the lines found, by file. Each line or a heading names the file; if neither does, it is `search.path`."""
    named = {found["file"] for line in lines if (found := _MATCH.fullmatch(line)) and not found["file"].isdecimal()}
    hits: dict[str, list[SearchHit]] = {}
    heading = search.path
    for at, line in enumerate(lines):
        match = _MATCH.fullmatch(line)
        if match and match["file"] in named and not _NUMBERED.fullmatch(line):
            hits.setdefault(match["file"], []).append(SearchHit(int(match["line"]), match["text"]))
        elif search.context and (beside := _beside(line, named)):
            hits.setdefault(beside[0], []).append(beside[1])
        elif numbered := _NUMBERED.fullmatch(line):
            hits.setdefault(heading, []).append(_hit(numbered))
        elif (found := _HEADING.fullmatch(line)) or _stands_above(lines, at):
            heading = (found["named"] or found["path"]) if found else line.strip()
    return hits


def _beside(line: str, named: Container[str]) -> tuple[str, SearchHit] | None:
    """Parse a context line of the form `path-line-text`. Return None if its path is not in `named`."""
    for found in re.finditer(r"-(\d{1,9})-", line[:2000]):
        if line[: found.start()] in named:
            return line[: found.start()], SearchHit(int(found[1]), line[found.end() :], is_context=True)
    return None


def _hit(found: re.Match[str]) -> SearchHit:
    number = found["a"] or found["b"] or found["c"]
    text = next(group for group in (found["words"], found["text"], found["beside"]) if group is not None)
    return SearchHit(int(number), text, is_context="-" in (found["mark"], found["sign"]))


def _stands_above(lines: Sequence[str], at: int) -> bool:
    """Return whether the line at this index is a heading with a file name, followed by a numbered line."""
    is_name = bool(lines[at].strip()) and not lines[at][0].isspace()
    return is_name and at + 1 < len(lines) and _NUMBERED.fullmatch(lines[at + 1]) is not None


def _is_path(line: str) -> bool:
    return (" " not in line or re.search(r"[\\/.]\w", line) is not None) and not re.search(r"[.!?:,] ", line)


def _kept(found: SearchOutput, glob: str) -> SearchOutput:
    """Return the output without files whose names do not match the glob. Directories in the glob are ignored."""
    if not glob or glob.startswith("!"):  # whether a file is excluded may depend on its directory
        return found
    names = [one.rsplit("/", 1)[-1] for one in _alternatives(glob)]

    def keeps(file: str) -> bool:
        return any(fnmatch(re.split(r"[\\/]", file)[-1], name) for name in names)

    return SearchOutput(
        {file: hits for file, hits in found.hits.items() if keeps(file)},
        [file for file in found.files if keeps(file)],
        {file: count for file, count in found.counts.items() if keeps(file)},
        found.is_cut,
    )


def _alternatives(glob: str) -> list[str]:
    """Expand the braces in a glob: `*.{ts,tsx}` becomes two patterns. If there are too many, return one for all."""
    expanded: list[str] = []
    left = [glob]
    while left:
        if len(left) + len(expanded) > MAX_PATTERNS:
            return ["*"]
        one = left.pop()
        braces = re.search(r"\{([^{}]*)\}", one)
        if braces is None:
            expanded.append(one)
        else:
            left += [one[: braces.start()] + inner + one[braces.end() :] for inner in braces[1].split(",")]
    return expanded


# ── Typed results ────────────────────────────────────────────────────────────────────────────────


def _mode(asked: Mode, found: SearchOutput) -> Mode:
    """Return the output mode of the result: the requested mode `asked` if the tool's output allows it.

    Otherwise, return the mode of that output.
    """
    if found.files:
        return "files_with_matches"
    return "count" if found.counts else asked


def _content(found: SearchOutput, search: Search) -> kinds.GrepUnionResult:
    matches = [
        kinds.GrepFileMatch(
            file=_name(file, search),
            matches=[
                kinds.GrepContentMatch(line_number=hit.line, content=hit.text, is_context_line=hit.is_context)
                for hit in hits
            ],
        )
        for file, hits in found.hits.items()
    ]
    lines = [hit for hits in found.hits.values() for hit in hits]
    # With context, a separator between two blocks counts as a line.
    gaps = sum(map(_blocks, found.hits.values())) - 1 if search.context and lines else 0
    content = kinds.GrepContentResult(
        matches=matches,
        total_lines=len(lines) + gaps,
        total_matched_lines=sum(not hit.is_context for hit in lines),
        client_truncated=found.is_cut,
    )
    return kinds.GrepUnionResult(content=content)


def _blocks(hits: Sequence[SearchHit]) -> int:
    """Return the number of blocks of adjacent lines that the hits form."""
    return sum(at == 0 or hit.line != hits[at - 1].line + 1 for at, hit in enumerate(hits))


def _files(found: SearchOutput, search: Search) -> kinds.GrepUnionResult:
    names = [_name(file, search) for file in found.files or found.hits]
    files = kinds.GrepFilesResult(files=names, total_files=len(names), client_truncated=found.is_cut)
    return kinds.GrepUnionResult(files=files)


def _counts(found: SearchOutput, search: Search) -> kinds.GrepUnionResult:
    counted = found.counts or {file: sum(not hit.is_context for hit in hits) for file, hits in found.hits.items()}
    counts = [kinds.GrepFileCount(file=_name(file, search), count=count) for file, count in counted.items() if count]
    count = kinds.GrepCountResult(
        counts=counts,
        total_files=len(counts),
        total_matches=min(sum(one.count for one in counts), 2**31 - 1),
        client_truncated=found.is_cut,
    )
    return kinds.GrepUnionResult(count=count)


def _name(file: str, search: Search) -> str:
    """Return a file's path relative to the root, or just its name if only this file was searched."""
    file = file.replace("\\", "/") if re.match(r"[A-Za-z]:\\", file) else file
    if search.path and f"/{search.path}".endswith(f"/{file.removeprefix('/')}"):
        return file.rsplit("/", 1)[-1]
    root = (search.root or search.path).rstrip("/")
    if root and file.startswith(f"{root}/"):
        return f"./{file[len(root) + 1 :]}"
    return file if re.match(r"\.{0,2}/|[A-Za-z]:", file) else f"./{file}"


def mode_of(asked: str) -> Mode:
    """Return the output mode with the requested name; `content` if the name is unknown."""
    return cast("Mode", asked) if asked in ("files_with_matches", "count") else "content"
