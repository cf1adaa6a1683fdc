"""A Markdown text that still grows: its finished blocks are rendered once, the unfinished rest is left as text.

A block is finished when another one has begun behind it, or when an empty line ends it for good. To find that out the
rest is parsed again, so it is not done at every word: only at the end of a line, and the longer the rest, the seldomer.
"""

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

from tieline.web.render import MOST_NESTED, MOST_TEXT, render

SMALL = 2048
"""So much is looked at whenever a line ends; beyond, when it has grown by a half."""

_LINE_END = re.compile(r"\r\n?|\n")
_ENDED_BY_BLANK = frozenset({"paragraph_open", "heading_open", "hr", "fence", "table_open", "blockquote_open"})
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:", re.MULTILINE)

_FINDER = MarkdownIt("commonmark", {"html": False, "maxNesting": MOST_NESTED}).enable("table")
_FINDER.disable(["html_block", "html_inline"])
_FINDER.core.ruler.enableOnly(["normalize", "block"])


class Block(NamedTuple):
    """One or more finished blocks as HTML; the text is done with up to `until`."""

    number: int
    html: str
    until: int


class Piece(NamedTuple):
    """What can be cut off the unfinished rest of a text, rendered."""

    length: int
    html: str


class Blocks:
    """The blocks of one text."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self.rest = ""
        """What is not finished."""
        self.until = 0
        """Where the rest begins."""
        self.is_independent = True
        """Whether no block can depend on another one: then they are together what the whole text would be."""
        self._looked_at = 0
        """How long the rest was when it was last looked at."""

    @property
    def html(self) -> str:
        """What is finished."""
        return "".join(block.html for block in self.done)

    @property
    def is_due(self) -> bool:
        """Whether it is worth the while to look for finished blocks."""
        grown = len(self.rest) - self._looked_at
        if grown <= 0 or (self._looked_at > SMALL and grown * 2 < self._looked_at):
            return False
        if self.until + len(self.rest) > MOST_TEXT:
            return False
        return _LINE_END.search(self.rest, self._looked_at) is not None

    def add(self, text: str) -> None:
        """More of the text."""
        self.rest += text

    def look(self) -> str:
        """The rest, to be given to `finished`."""
        self._looked_at = len(self.rest)
        return self.rest

    def cut(self, piece: Piece) -> Block:
        """A piece of what was looked at is finished."""
        text, self.rest = self.rest[: piece.length], self.rest[piece.length :]
        self.is_independent = self.is_independent and _REFERENCE.search(text) is None
        self._looked_at = max(0, self._looked_at - piece.length)
        self.until += piece.length
        block = Block(len(self.done), piece.html, self.until)
        self.done.append(block)
        return block


def finished(rest: str, *, is_all: bool) -> Piece | None:
    """What is finished of a rest, if anything is; takes its time, so it is for a thread."""
    cut = len(rest) if is_all else find_cut(rest)
    return Piece(cut, render(rest[:cut])) if cut else None


def find_cut(text: str) -> int:
    """Where the last block begins that is not finished; 0 if it is the first.

    Only whole lines tell: what begins with `1` may become a paragraph, or go on with the list before it.
    """
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
    lines = text[: starts[-1]]
    openers = [token for token in _FINDER.parse(lines) if token.level == 0 and token.nesting >= 0 and token.map]
    if not openers:
        return 0
    last = openers[-1]
    begin, end = last.map or (0, 0)
    blank = end
    while blank + 1 < len(starts) and not text[starts[blank] : starts[blank + 1]].strip():
        blank += 1
    return starts[blank] if blank > end and last.type in _ENDED_BY_BLANK else starts[begin]
