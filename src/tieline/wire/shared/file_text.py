"""File contents in a conversation: parse the output of tools that read files, and render files as text."""

import re
from typing import NamedTuple

import msgspec

_REMINDER = re.compile(r"\s{0,4}<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s{0,4}\Z", re.DOTALL)
_NOTE = r"(?:End of file|Showing lines|Output capped|Output truncated|File has more lines)[^\n]*"
_WRAPPED = re.compile(
    r"(?:<path>[^\n]*\n)?(?:<type>[^\n]*\n)?<(content|file)>\n(?P<inner>.*?)"
    rf"(?:\n{{0,2}}\((?P<note>{_NOTE})\))?\n</\1>\s{{0,4}}",
    re.DOTALL,
)
_FOOTNOTE = re.compile(r"\n\n\[(?P<note>(?:Showing lines|\d{1,7} more lines)[^\n]*)\]\s{0,4}\Z")
_NOTICE = re.compile(
    r"(?:IMPORTANT: )?The file content has been truncated\.?\n(?P<note>(?:[^\n]*\n){1,8}?)"
    r"\n?--- FILE CONTENT \(truncated\) ---\n"
)
_HEADING = re.compile(r"Contents? of [^\n]{1,300}:\n")
_NUMBER = re.compile(r"\s{0,8}(\d{1,7})(?:\t|→)")
_NUMBER_IN_TAGS = re.compile(r"\s{0,8}(\d{1,7})(?:\t|→|: ?| ?\| ?)")
_LINE_BY_LINE = re.compile(r"\d{1,7}: ?")
_SHORTENED = re.compile(r"\.\.\. ?[(\[](?:line )?truncated[^)\]\n]{0,40}[)\]]$", re.MULTILINE)
_TOTAL = re.compile(r"(?:total|of) (\d{1,9})\b")
_FENCE = re.compile(r"`{3,}")

COMMAND_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Process exited with code|Process running with session ID"
    r"|Original token count|Total output lines)\b[^\n]*\n+){1,8}Output:(?:\n|\Z)",
    re.IGNORECASE,
)
"""Matches the lines that Codex puts before the output of a command."""


class ShownFile(NamedTuple):
    """The content of a file, parsed from the output of a tool that adds tags, line numbers and the like."""

    text: str
    first: int = 1
    """The line number of the first line shown."""
    total: int | None = None
    """The number of lines in the file, if the tool reports it."""
    is_cut: bool = False
    """Whether lines are missing at the end, or a line is truncated."""
    is_exact: bool = True
    """Whether the text ends with a newline if and only if the file does. Some output formats do not preserve this."""


def bare(shown: str) -> str:
    """Return the text of a file without a tool's additions: tags, a heading, line numbers, the status of a command."""
    head = COMMAND_HEAD.match(shown)
    return unwrap(shown[head.end() :] if head else shown).text


def unwrap(shown: str) -> ShownFile:
    """Parse a tool's output: return the text of the file and the tool's information about it, such as its length."""
    text = _REMINDER.sub("", shown)
    if heading := _HEADING.match(text):
        return ShownFile(text[heading.end() :])
    if (inner := answered(text)) is not None:
        return _unnumbered(inner, _NUMBER_IN_TAGS) or ShownFile(inner)
    if notice := _NOTICE.match(text):
        return _noted(ShownFile(text[notice.end() :]), notice["note"])
    if footnote := _FOOTNOTE.search(text):
        return _noted(ShownFile(text[: footnote.start()]), footnote["note"])
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped and wrapped["inner"] == "" and wrapped["note"]:
        return _noted(ShownFile(""), wrapped["note"])
    found = _unnumbered(wrapped["inner"], _NUMBER_IN_TAGS) if wrapped else _unnumbered(text, _NUMBER)
    return ShownFile(text) if found is None else _noted(found, (wrapped and wrapped["note"]) or "")


class QueryAnswer(msgspec.Struct):
    """The answer to one query in the result of a tool that takes several queries at once."""

    query: str
    result: str
    success: bool = True


def answers(text: str) -> list[QueryAnswer]:
    """Parse the result of a tool that takes several queries at once. Return an empty list for any other text."""
    if not text.startswith("["):
        return []
    try:
        return msgspec.json.decode(text, type=list[QueryAnswer])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return []


def answered(text: str) -> str | None:
    """Return the joined answers in the result of a tool that takes several queries; None for any other text."""
    found = answers(text)
    return "\n".join(answer.result for answer in found) if found else None


def listing(path: str, content: str) -> str:
    """Render a file as its path and a fenced block. Clients without tools save such a block under that path."""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(content))])
    return f"{path}\n{fence}\n{content.rstrip()}\n{fence}"


def _unnumbered(text: str, number: re.Pattern[str]) -> ShownFile | None:
    """Return the text without line numbers; None unless all lines have consecutive numbers that match `number`."""
    # `cat -n` ends its last line with a newline; tools that number an empty last line do not.
    end = "\n" if text.endswith("\n") else ""
    lines = text.removesuffix("\n").split("\n")
    found = [match for line in lines if (match := number.match(line))]
    numbers = [int(match[1]) for match in found]
    if len(found) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    inside = "\n".join(line[match.end() :] for line, match in zip(lines, found, strict=True)) + end
    is_exact = not _LINE_BY_LINE.fullmatch(found[-1][0])
    return ShownFile(inside, first=numbers[0], is_cut=_SHORTENED.search(inside) is not None, is_exact=is_exact)


def _noted(shown: ShownFile, note: str) -> ShownFile:
    """Return `shown` completed with facts from a tool's note: the file's length, and whether lines are missing."""
    total = _TOTAL.search(note)
    is_cut = shown.is_cut or (note != "" and not note.startswith("End of file"))
    return shown._replace(total=int(total[1]) if total else None, is_cut=is_cut)
