"""Split thinking in `<think>` tags off from the text of a model.

Some models begin their text with `<think>…</think>`. A tag counts only at the beginning: later it may be part of a text
about tags. A tag may be split over any number of deltas, so a possible beginning of one is held back.
"""

from enum import Enum, auto

Piece = tuple[bool, str]
"""Whether this is thinking, and the text."""

_NAMES = ("think", "thinking")
_OPENING = tuple(f"<{name}>" for name in _NAMES)
_MAX_BLANKS = 200
"""A tag may follow at most this much blank space."""


class _TagState(Enum):
    BEGIN = auto()
    """A tag may follow."""
    THINKING = auto()
    TEXT = auto()
    """No tag counts any more."""


class TagSplitter:
    """Splits a text, fed from its beginning, into pieces of thinking and of plain text."""

    def __init__(self) -> None:
        self.is_plain = False
        """Whether all further text is plain, so that there is no need to feed it."""
        self._state = _TagState.BEGIN
        self._held = ""
        self._closing = ""
        self._follows_thinking = False

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces that are certain now."""
        pieces: list[Piece] = []
        text, self._held = self._held + text, ""
        while text:
            if self._state is _TagState.BEGIN:
                text = self._begin(text)
                if not text:
                    break
            if self._state is _TagState.THINKING:
                text = self._think(text, pieces)
            elif self._state is _TagState.TEXT:
                pieces.append((False, text))
                break
        return pieces

    def close(self) -> list[Piece]:
        """Return what was held back, unless it is blank: the text ends here."""
        held, self._held = self._held, ""
        return [(self._state is _TagState.THINKING, held)] if held.strip() else []

    def _begin(self, text: str) -> str:
        """Decide whether a tag comes next; return the text after it, or nothing while it is undecided."""
        bare = text.lstrip()
        if len(text) - len(bare) <= _MAX_BLANKS:
            for tag in _OPENING:
                if bare.startswith(tag):
                    self._state = _TagState.THINKING
                    self._closing = f"</{tag[1:]}"
                    return bare[len(tag) :]
            if any(tag.startswith(bare) for tag in _OPENING):
                self._held = text
                return ""
        self._state = _TagState.TEXT
        self.is_plain = True
        return bare if self._follows_thinking else text

    def _think(self, text: str, pieces: list[Piece]) -> str:
        """Add the thinking up to the closing tag to `pieces`; return the text after it."""
        thought, closing, rest = text.partition(self._closing)
        if closing:
            self._state = _TagState.BEGIN
            self._follows_thinking = True
        else:
            kept = _overlap(thought, self._closing)
            self._held = thought[len(thought) - kept :]
            thought = thought[: len(thought) - kept]
        if thought:
            pieces.append((True, thought))
        return rest


def split(text: str) -> tuple[str, str]:
    """Return the thinking and the plain text of a complete text."""
    splitter = TagSplitter()
    pieces = [*splitter.feed(text), *splitter.close()]
    thinking = "".join(piece for is_thinking, piece in pieces if is_thinking)
    return thinking.strip(), "".join(piece for is_thinking, piece in pieces if not is_thinking)


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of the text may be the beginning of the tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
