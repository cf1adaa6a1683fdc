"""Process an answer's text: thinking in tags, text that a new attempt repeats, and text that was never streamed.

Some models begin their text with `<think>…</think>`. A tag is recognized only at the beginning of the text, because a
later tag may be part of a text about tags. A tag may be split over any number of deltas, so text that may be the
beginning of a tag is held back.

A step is the output of the model up to the next tool call or the end of the turn. When a step is finished, the service
stores a copy of its text in blobs of the run: as a JSON message, as a conversation step, or both. Sometimes the service
never streams the text, and only the copy contains it. Because streamed text must not be repeated, a copy is used only
if none of its text, or only the beginning, was streamed.
"""

import re
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

import msgspec
from google.protobuf.message import DecodeError

from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor.stored_state import Blobs
from tieline.wire.shared.json import Malformed, read

MAX_COPIES = 64
"""The maximum number of copies that are kept. If there are more, the oldest ones are dropped."""
MAX_ANSWER = 1 << 20
"""The maximum size of a stored answer in bytes. Larger blobs are assumed not to be answers."""

_BEGINNINGS = (b"{", b"\n")
_OF_THE_MODEL = re.compile(rb'"role"\s*:\s*"assistant"')

Piece = tuple[bool, str]
"""A piece of an answer: whether it is thinking, and its text."""

_NAMES = ("think", "thinking")
_OPENING = tuple(f"<{name}>" for name in _NAMES)
_MAX_BLANKS = 200
"""The maximum number of blank characters before a thinking tag. After more of them, no tag is recognized."""


# ── Thinking in tags ──────────────────────────────────────────────────────────────────────────────


class _TagState(Enum):
    BEGIN = auto()
    """The text may still begin with a thinking tag."""
    THINKING = auto()
    TEXT = auto()
    """All further text is plain; tags are no longer recognized."""


class TagSplitter:
    """Splits a text into thinking in tags and plain text. The text is fed in pieces."""

    def __init__(self) -> None:
        self.is_plain = False
        """Whether all further text is plain. If so, it does not have to be passed to `feed`."""
        self._state = _TagState.BEGIN
        self._held = ""
        self._closing = ""
        self._follows_thinking = False

    def feed(self, text: str) -> list[Piece]:
        """Add text. Return the new pieces, except text at the end that may be part of a tag."""
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
        """End the text. Return the text that was held back as a piece, unless it is blank."""
        held, self._held = self._held, ""
        return [(self._state is _TagState.THINKING, held)] if held.strip() else []

    def _begin(self, text: str) -> str:
        """Decide whether the text begins with a tag. Return the text without the tag; empty if more text is needed."""
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
    """Split a complete text. Return the thinking in tags at its beginning, and the plain text."""
    splitter = TagSplitter()
    pieces = [*splitter.feed(text), *splitter.close()]
    thinking = "".join(piece for is_thinking, piece in pieces if is_thinking)
    return thinking.strip(), "".join(piece for is_thinking, piece in pieces if not is_thinking)


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of the text may be the beginning of the tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)


# ── Repeated text ─────────────────────────────────────────────────────────────────────────────────


class RepeatFilter:
    """Removes the text `earlier` from the beginning of a text that is fed in pieces.

    Leading blank space is ignored in both texts. If the text does not begin with `earlier`, nothing is removed.
    """

    def __init__(self, earlier: str) -> None:
        self._earlier = earlier.lstrip()
        self._received = ""
        self.is_over = not self._earlier
        """Whether all further text is new, so that `feed` returns it unchanged."""
        self.has_diverged = False
        """Whether the text differs from `earlier`. If so, `feed` returns the whole text."""

    def feed(self, text: str) -> str:
        """Add text. Return the text that is known to be new; it is empty while the text repeats `earlier`."""
        if self.is_over:
            return text
        self._received = (self._received + text).lstrip()
        if self._earlier.startswith(self._received):
            return ""
        self.is_over = True
        if self._received.startswith(self._earlier):
            return self._received[len(self._earlier) :]
        self.has_diverged = True
        return self._received


# ── Stored text ───────────────────────────────────────────────────────────────────────────────────


class StoredText(NamedTuple):
    """The thinking and text of a stored answer. The beginning is left out if it was already streamed."""

    thinking: str
    text: str


class _Piece(msgspec.Struct):
    type: str = ""
    text: str = ""


class _AnswerMessage(msgspec.Struct):
    role: str = ""
    content: str | list[_Piece] = ""


_MESSAGE = msgspec.json.Decoder(_AnswerMessage)


class StoredAnswers:
    """The copies of a run's answers that the service stored, and the text that it streamed."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known = frozenset(blob_id for blob_id, _ in blobs.items())
        """The ids of the blobs that existed when the run began. They contain history, not answers of this run."""
        self._copies: deque[bytes] = deque(maxlen=MAX_COPIES)
        self._this_step: list[str] = []
        self._earlier_steps: list[str] = []

    def keep(self, blob_id: bytes, data: bytes) -> None:
        """Keep a blob if it may be a copy of an answer. It is parsed only when needed."""
        if len(data) <= MAX_ANSWER and blob_id not in self._known and _may_be_an_answer(data):
            self._copies.append(data)

    def record(self, text: str) -> None:
        """Record text that was streamed."""
        self._this_step.append(text)

    @property
    def step(self) -> str:
        """The text that was streamed in the current step."""
        return "".join(self._this_step)

    def take_over(self, before: "StoredAnswers") -> None:
        """Treat the text that another run streamed as if this run had streamed it."""
        self._this_step = list(before._this_step)
        self._earlier_steps = list(before._earlier_steps)

    def next_step(self) -> None:
        """Begin the next step, and drop the copies of earlier steps.

        The caller must call this whenever a tool call is made or answered.
        """
        self._earlier_steps += self._this_step
        self._this_step = []
        self._copies.clear()

    def has_streamed(self, text: str, open_text: str = "") -> bool:
        """Return whether the text was streamed, ignoring blank space.

        `open_text` is the text of the part that is being streamed, which is not recorded yet.
        """
        return _squeezed(text) in _squeezed("".join((*self._earlier_steps, *self._this_step, open_text)))

    def unseen(self, open_text: str = "") -> StoredText | None:
        """Return the part of the newest stored answer that was not streamed; None if there is no such part.

        `open_text` is the text of the part that is being streamed, which is not recorded yet.
        """
        if not self._copies:
            return None
        step = (self.step + open_text).lstrip()
        for data in reversed(self._copies):
            found = _assistant_text(data)
            if found is None:
                continue
            if found.text == step.rstrip():
                return None  # the usual case: a copy of what was just streamed
            if self.has_streamed(found.text, open_text) or self._is_history(found.text):
                continue
            if not step:
                return found
            if found.text.startswith(step):
                return StoredText("", found.text[len(step) :])
        return None

    def _is_history(self, text: str) -> bool:
        """Return whether the text is an answer from the history. The service may store such answers again."""
        wanted = _squeezed(text)
        return any(_squeezed(found.text) == wanted for found in self._history())

    def _history(self) -> Iterator[StoredText]:
        for blob_id, data in self._blobs.items():
            if blob_id in self._known and data[:1] in _BEGINNINGS:
                found = _assistant_text(data)
                if found is not None:
                    yield found


def _may_be_an_answer(data: bytes) -> bool:
    """Return whether a blob may be a copy of an answer. Most blobs are large prompts, which are not needed here."""
    return data[:1] == b"\n" or (data[:1] == b"{" and _OF_THE_MODEL.search(data) is not None)


def _assistant_text(data: bytes) -> StoredText | None:
    """Return the answer in a stored copy; None if it has no text.

    Also return None for a copy that contains a tool call, because the run has already received that call.
    """
    found = _in_message(data) if data[:1] == b"{" else _in_step(data)
    if found is None:
        return None
    thinking, text = split(found.text)
    text = text.strip()
    return StoredText("\n\n".join(filter(None, (found.thinking, thinking))), text) if text else None


def _in_message(data: bytes) -> StoredText | None:
    try:
        message = read(_MESSAGE, data)
    except Malformed:
        return None
    if message.role != "assistant":
        return None
    content = message.content
    if isinstance(content, str):
        return StoredText("", content)
    if any(piece.type == "tool-call" for piece in content):
        return None
    thinking = "\n\n".join(piece.text for piece in content if piece.type == "reasoning")
    return StoredText(thinking, "".join(piece.text for piece in content if piece.type == "text"))


def _in_step(data: bytes) -> StoredText | None:
    try:
        step = conversation.ConversationStep.FromString(data)
    except DecodeError:
        return None
    return StoredText("", step.assistant_message.text) if step.HasField("assistant_message") else None


def _squeezed(text: str) -> str:
    return "".join(text.split())
