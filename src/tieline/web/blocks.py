"""Incremental rendering of growing Markdown: finished blocks are rendered once, the unfinished rest stays text.

A block is finished when another one has begun after it, or when an empty line ends it. Finding out means parsing the
rest again, so it happens only at line ends, and less often the longer the rest is.
"""

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

from tieline.web.markdown import MAX_NESTED, MAX_TEXT, render

SMALL = 2048
"""Up to this many characters the rest is parsed at every line end; a longer one only after it has grown by half."""

_LINE_END = re.compile(r"\r\n?|\n")
_ENDED_BY_BLANK = frozenset({"paragraph_open", "heading_open", "hr", "fence", "table_open", "blockquote_open"})
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:", re.MULTILINE)

_FINDER = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}).enable("table")
_FINDER.disable(["html_block", "html_inline"])
_FINDER.core.ruler.enableOnly(["normalize", "block"])


class Block(NamedTuple):
    """One or more finished blocks as HTML; `until` is the offset in the text where they end."""

    number: int
    html: str
    until: int


class RenderedPiece(NamedTuple):
    """The finished beginning of the rest, rendered; `length` is its length in the text."""

    length: int
    html: str


class Blocks:
    """The blocks of one text."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self.rest = ""
        """The unfinished text."""
        self.until = 0
        """The offset where the rest begins."""
        self.is_independent = True
        """Whether no block depends on another, so that they equal the rendering of the whole text."""
        self._looked_at = 0
        """The length of the rest when it was last parsed."""

    @property
    def html(self) -> str:
        """The HTML of all finished blocks."""
        return "".join(block.html for block in self.done)

    @property
    def is_due(self) -> bool:
        """Whether the rest has grown enough to look for finished blocks."""
        grown = len(self.rest) - self._looked_at
        if grown <= 0 or (self._looked_at > SMALL and grown * 2 < self._looked_at):
            return False
        if self.until + len(self.rest) > MAX_TEXT:
            return False
        return _LINE_END.search(self.rest, self._looked_at) is not None

    def add(self, text: str) -> None:
        """Append to the text."""
        self.rest += text

    def look(self) -> str:
        """Return the rest, to be passed to `finished`."""
        self._looked_at = len(self.rest)
        return self.rest

    def cut(self, piece: RenderedPiece) -> Block:
        """Move a finished piece of the rest to the blocks."""
        text, self.rest = self.rest[: piece.length], self.rest[piece.length :]
        self.is_independent = self.is_independent and _REFERENCE.search(text) is None
        self._looked_at = max(0, self._looked_at - piece.length)
        self.until += piece.length
        block = Block(len(self.done), piece.html, self.until)
        self.done.append(block)
        return block


def finished(rest: str, *, is_all: bool) -> RenderedPiece | None:
    """Render the finished beginning of a rest; None if nothing is finished. Slow: call it in a thread."""
    cut = len(rest) if is_all else find_cut(rest)
    return RenderedPiece(cut, render(rest[:cut])) if cut else None


def find_cut(text: str) -> int:
    """Return the offset of the last block that is not finished; 0 if it is the first.

    Only complete lines count: a line that starts with `1` may become a paragraph or continue a list.
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
