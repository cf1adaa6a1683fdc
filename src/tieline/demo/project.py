"""Explains a project by its files: lists the folder, reads the README that is found there, and says what it says."""

import re
from collections.abc import Iterator, Sequence

from tieline.demo.conversation import Outcome
from tieline.demo.phrases import counted, listed, report, shortened
from tieline.demo.wishes import Wish
from tieline.wire.shared.file_text import bare

LONGEST_NAME = 60
LONGEST_QUOTE = 600
LIMITS = "I read files, but I do not understand them: for a real explanation choose a real model."

_PROJECT = r"(?:this|the|my) (?:project|repo(?:sitory)?|code ?base|folder|workspace)"
_ASKED = re.compile(
    rf"(?:please |can you |could you )*(?:(?:explain|describe|summari[sz]e|tell me)(?: to me)?(?: what| about)?"
    rf" {_PROJECT}(?: does| is(?: about| for)?)?|what (?:does|is) {_PROJECT}(?: do| about| for)?)[.?!]*",
    re.IGNORECASE,
)
_README = re.compile(r"(?<![\w-])(?:[^\s\"'`,]*/)?readme(?:\.(?:md|markdown|rst|txt))?(?![\w.])", re.IGNORECASE)
_NO_PROSE = re.compile(r"[#|!\[<>`*=~-]|\d+\.|\s*$")


def is_asked(words: str) -> bool:
    """Whether the user wants to know what the project is about."""
    return _ASKED.fullmatch(words.strip()) is not None


def steps(outcomes: Sequence[Outcome]) -> list[list[Wish]]:
    """What to do for it, as far as that is known: which file to read is in the listing."""
    readme = _readme(outcomes)
    return [[Wish(kind="list")], *([[Wish(kind="read", path=readme)]] if readme else [])]


def explanation(outcomes: Sequence[Outcome]) -> str:
    """What the listing and the README say."""
    entries, *read = outcomes
    parts = [report(entries) if entries.is_error else f"{_entries(entries.text)} {LIMITS}"]
    if read:
        parts = [report(read[0]) if read[0].is_error else _quoted(_readme(outcomes), bare(read[0].text)), *parts]
    return "\n\n".join(parts)


def _readme(outcomes: Sequence[Outcome]) -> str:
    """The README in the listing, the one closest to the root."""
    found = _README.findall(outcomes[0].text) if outcomes and not outcomes[0].is_error else []
    return min(found, key=lambda name: (name.count("/"), len(name)), default="")


def _entries(text: str) -> str:
    names = [line.strip() for line in bare(text).splitlines() if 0 < len(line.strip()) <= LONGEST_NAME]
    return f"The folder shows {counted(len(names), 'line')}: {listed(names)}." if names else "The folder is empty."


def _quoted(name: str, text: str) -> str:
    title = next((line.strip("# ").strip() for line in text.splitlines() if line.startswith("#")), "")
    prose = next(_paragraphs(text), "")
    said = f"> {shortened(prose, LONGEST_QUOTE)}" if prose else "It has no text that I could quote."
    return f"This is what `{name}` says" + (f" about **{title}**" if title else "") + f":\n\n{said}"


def _paragraphs(text: str) -> Iterator[str]:
    """Runs of lines that look like prose."""
    for block in re.split(r"\n\s*\n", re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.DOTALL)):
        lines = [line for line in block.strip().splitlines() if not _NO_PROSE.match(line)]
        if lines:
            yield " ".join(lines)
