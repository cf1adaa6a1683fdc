"""Describe the user's project: list its folder, read the README found there, and quote it."""

import re
from collections.abc import Iterator, Sequence

from tieline.demo.actions import Action
from tieline.demo.conversation import CallOutcome
from tieline.demo.phrases import listed, report, shortened
from tieline.wire.shared.file_text import bare

LONGEST_NAME = 60
LONGEST_QUOTE = 600
LIMITS = "I can read files, but I do not understand them. For a real explanation, choose a real model."

_PROJECT = r"(?:this|the|my) (?:project|repo(?:sitory)?|code ?base|folder|workspace)"
_ASKED = re.compile(
    rf"(?:please |can you |could you )*(?:(?:explain|describe|summari[sz]e|tell me)(?: to me)?(?: what| about)?"
    rf" {_PROJECT}(?: does| is(?: about| for)?)?|what (?:does|is) {_PROJECT}(?: do| about| for)?)[.?!]*",
    re.IGNORECASE,
)
_README = re.compile(r"(?<![\w-])(?:[^\s\"'`,]*/)?readme(?:\.(?:md|markdown|rst|txt))?(?![\w.])", re.IGNORECASE)
_NO_PROSE = re.compile(r"[#|!\[<>`*=~-]|\d+\.|\s*$")


def is_asked(words: str) -> bool:
    """Return whether the user asks what the project is about."""
    return _ASKED.fullmatch(words.strip()) is not None


def steps(outcomes: Sequence[CallOutcome]) -> list[list[Action]]:
    """Return the steps to take: list the folder and, if the listing is known and contains a README, read that."""
    readme = _readme(outcomes)
    return [[Action(kind="list")], *([[Action(kind="read", path=readme)]] if readme else [])]


def explanation(outcomes: Sequence[CallOutcome]) -> str:
    """Return a description of the project. `outcomes` are the listing of its folder and, if it was read, the README."""
    entries, *read = outcomes
    parts = [report(entries) if entries.is_error else f"{_entries(entries.text)} {LIMITS}"]
    if read:
        parts = [report(read[0]) if read[0].is_error else _quoted(_readme(outcomes), bare(read[0].text)), *parts]
    return "\n\n".join(parts)


def _readme(outcomes: Sequence[CallOutcome]) -> str:
    """Return the path of the README in the listing, or an empty string. If there are several, take the least nested."""
    found = _README.findall(outcomes[0].text) if outcomes and not outcomes[0].is_error else []
    return min(found, key=lambda name: (name.count("/"), len(name)), default="")


def _entries(text: str) -> str:
    names = [line.strip() for line in bare(text).splitlines() if 0 < len(line.strip()) <= LONGEST_NAME]
    return f"The folder contains {listed(names)}." if names else "The folder is empty."


def _quoted(name: str, text: str) -> str:
    title = next((line.strip("# ").strip() for line in text.splitlines() if line.startswith("#")), "")
    prose = next(_paragraphs(text), "")
    said = f"> {shortened(prose, LONGEST_QUOTE)}" if prose else "It has no text to quote."
    return f"`{name}` describes " + (f"**{title}**" if title else "this project") + f":\n\n{said}"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a Markdown text that look like prose."""
    for block in re.split(r"\n\s*\n", re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.DOTALL)):
        lines = [line for line in block.strip().splitlines() if not _NO_PROSE.match(line)]
        if lines:
            yield " ".join(lines)
