"""Incremental rendering of a growing Markdown text: each block is rendered once, when it is finished.

A block is finished when another block has begun after it, or when an empty line ends it. To find newly finished blocks,
the text after the last finished block is parsed again. This is done only at line ends, and less often as the text
grows.
"""

import re
from typing import NamedTuple

from markdown_it import MarkdownIt

from tieline.web.markdown import MAX_NESTED, MAX_TEXT, render

SMALL = 2048
"""Unfinished text up to this length is parsed at every line end. Longer text is parsed when it has grown by half."""

_LINE_END = re.compile(r"\r\n?|\n")
_ENDED_BY_BLANK = frozenset({"paragraph_open", "heading_open", "hr", "fence", "table_open", "blockquote_open"})
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:", re.MULTILINE)

_FINDER = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTED}).enable("table")
_FINDER.disable(["html_block", "html_inline"])
_FINDER.core.ruler.enableOnly(["normalize", "block"])


class Block(NamedTuple):
    """The HTML of one or more finished blocks. `until` is the offset in the whole text at which they end."""

    number: int
    html: str
    until: int


class RenderedPiece(NamedTuple):
    """The HTML of one or more finished blocks. `length` is the length of their Markdown in characters."""

    length: int
    html: str


class Blocks:
    """The finished blocks of one growing text, and the unfinished text after them."""

    def __init__(self) -> None:
        self.done: list[Block] = []
        self.rest = ""
        """The text after the last finished block."""
        self.until = 0
        """The offset in the text at which the unfinished text begins."""
        self.is_independent = True
        """Whether the blocks are independent: rendered one by one, they give the same HTML as the whole text."""
        self._looked_at = 0
        """The length of the unfinished text when it was last parsed."""

    @property
    def html(self) -> str:
        """The HTML of all finished blocks."""
        return "".join(block.html for block in self.done)

    @property
    def is_due(self) -> bool:
        """Whether the unfinished text has grown enough to look for finished blocks in it."""
        grown = len(self.rest) - self._looked_at
        if grown <= 0 or (self._looked_at > SMALL and grown * 2 < self._looked_at):
            return False
        if self.until + len(self.rest) > MAX_TEXT:
            return False
        return _LINE_END.search(self.rest, self._looked_at) is not None

    def add(self, text: str) -> None:
        """Append `text` to the unfinished text."""
        self.rest += text

    def look(self) -> str:
        """Return the unfinished text, to be passed to `finished`, and remember its length for `is_due`."""
        self._looked_at = len(self.rest)
        return self.rest

    def cut(self, piece: RenderedPiece) -> Block:
        """Remove a rendered piece from the beginning of the unfinished text, and add it to the finished blocks."""
        text, self.rest = self.rest[: piece.length], self.rest[piece.length :]
        self.is_independent = self.is_independent and _REFERENCE.search(text) is None
        self._looked_at = max(0, self._looked_at - piece.length)
        self.until += piece.length
        block = Block(len(self.done), piece.html, self.until)
        self.done.append(block)
        return block


def finished(rest: str, *, is_all: bool) -> RenderedPiece | None:
    """Render the finished blocks at the beginning of `rest`, or the whole of `rest` if `is_all` is true.

    Return None if there is nothing to render. This is slow: call it in a thread.
    """
    cut = len(rest) if is_all else find_cut(rest)
    return RenderedPiece(cut, render(rest[:cut])) if cut else None


def find_cut(text: str) -> int:
    """Return the offset at which the finished blocks of a text end; 0 if no block is finished.

    An incomplete last line is ignored, because it is ambiguous: `1` may begin a paragraph or continue a list.
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
