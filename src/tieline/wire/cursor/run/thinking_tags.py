"""Thinking that a model wrote into its text, between tags, split off from the text.

Some models begin what they say with `<think>…</think>`. A tag counts only where words begin: further on it is a word
like any other, for somebody may well be talking about tags. A tag may be cut over any number of deltas; what could
still become one is held back.
"""

from enum import Enum, auto

Piece = tuple[bool, str]
"""Whether it is thinking, and the text."""

_NAMES = ("think", "thinking")
_OPENING = tuple(f"<{name}>" for name in _NAMES)
_LONGEST = 200
"""More blank space than this is nobody's run-up to a tag."""


class _State(Enum):
    BEGIN = auto()
    THINKING = auto()
    WORDS = auto()


class TagSplitter:
    """Feed it text from where words begin; it gives pieces of thinking and of words."""

    def __init__(self) -> None:
        self.is_plain = False
        """Whether all that comes is words: there is no need to feed it then."""
        self._state = _State.BEGIN
        self._held = ""
        self._closing = ""
        self._follows_thinking = False

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        pieces: list[Piece] = []
        text, self._held = self._held + text, ""
        while text:
            if self._state is _State.BEGIN:
                text = self._begin(text)
                if not text:
                    break
            if self._state is _State.THINKING:
                text = self._think(text, pieces)
            elif self._state is _State.WORDS:
                pieces.append((False, text))
                break
        return pieces

    def close(self) -> list[Piece]:
        """The words end here: what was held back is no tag, and of no use if it is blank."""
        held, self._held = self._held, ""
        return [(self._state is _State.THINKING, held)] if held.strip() else []

    def _begin(self, text: str) -> str:
        """Decide what the words begin with; gives what remains to be read, nothing while it is undecided."""
        bare = text.lstrip()
        if len(text) - len(bare) <= _LONGEST:
            for tag in _OPENING:
                if bare.startswith(tag):
                    self._state = _State.THINKING
                    self._closing = f"</{tag[1:]}"
                    return bare[len(tag) :]
            if any(tag.startswith(bare) for tag in _OPENING):
                self._held = text
                return ""
        self._state = _State.WORDS
        self.is_plain = True
        return bare if self._follows_thinking else text

    def _think(self, text: str, pieces: list[Piece]) -> str:
        """Give thinking up to the closing tag; gives what remains to be read."""
        thought, closing, rest = text.partition(self._closing)
        if closing:
            self._state = _State.BEGIN
            self._follows_thinking = True
        else:
            kept = _overlap(thought, self._closing)
            self._held = thought[len(thought) - kept :]
            thought = thought[: len(thought) - kept]
        if thought:
            pieces.append((True, thought))
        return rest


def split(text: str) -> tuple[str, str]:
    """The thinking and the words of a whole text."""
    splitter = TagSplitter()
    pieces = [*splitter.feed(text), *splitter.close()]
    thinking = "".join(piece for is_thinking, piece in pieces if is_thinking)
    return thinking.strip(), "".join(piece for is_thinking, piece in pieces if not is_thinking)


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
