"""How files look in a conversation: as a reading tool shows them, and as a client without tools wants them written."""

import re

import msgspec

_REMINDER = re.compile(r"\s{0,4}<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s{0,4}\Z", re.DOTALL)
_WRAPPED = re.compile(
    r"(?:<path>[^\n]*\n)?(?:<type>[^\n]*\n)?<(content|file)>\n(?P<inner>.*?)"
    r"(?:\n{1,2}\(End of file[^\n]*\))?\n</\1>\s{0,4}",
    re.DOTALL,
)
_HEADING = re.compile(r"Contents? of [^\n]{1,300}:\n")
_NUMBER = re.compile(r"\s{0,8}(\d{1,7})(?:\t|→)")
_NUMBER_IN_TAGS = re.compile(r"\s{0,8}(\d{1,7})(?:\t|→|: ?| ?\| ?)")
_FENCE = re.compile(r"`{3,}")


def bare(shown: str) -> str:
    """The text of a file without what reading tools put around it: tags, a heading, the numbers of its lines."""
    text = _REMINDER.sub("", shown)
    if heading := _HEADING.match(text):
        return text[heading.end() :]
    if (inner := _answered(text)) is not None:
        return _unnumbered(inner, _NUMBER_IN_TAGS) or inner
    wrapped = _WRAPPED.fullmatch(text)
    numbered = _unnumbered(wrapped["inner"], _NUMBER_IN_TAGS) if wrapped else _unnumbered(text, _NUMBER)
    return text if numbered is None else numbered


def listing(path: str, content: str) -> str:
    """A whole file as text: its path and a fenced block, which clients without tools save under that path."""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(content))])
    return f"{path}\n{fence}\n{content.rstrip()}\n{fence}"


class _Answer(msgspec.Struct):
    """One file out of several, as a tool that reads many at once gives it back."""

    query: str
    result: str


def _answered(text: str) -> str | None:
    """The result in a JSON list of queries and results."""
    try:
        answers = msgspec.json.decode(text, type=list[_Answer])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return "\n".join(answer.result for answer in answers) if answers else None


def _unnumbered(text: str, number: re.Pattern[str]) -> str | None:
    """The lines without their numbers, if they have any that count up."""
    lines = text.split("\n")
    found = [match for line in lines if (match := number.match(line))]
    numbers = [int(match[1]) for match in found]
    if len(found) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return "\n".join(line[match.end() :] for line, match in zip(lines, found, strict=True))
