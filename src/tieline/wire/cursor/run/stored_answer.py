"""What the assistant said according to the blobs, for a run that stored its answer but never streamed it.

The service keeps a copy of every finished step with the client: as JSON of a message, as a step of the conversation,
or both. Now and then it goes silent after that, and the copy is all there is. Whatever was streamed must not be said
again: a copy counts only if nothing of it, or just its beginning, has been seen.
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from google.protobuf.message import DecodeError

from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor.blobs import Blobs
from tieline.wire.cursor.run.thinking_tags import split
from tieline.wire.shared.json import Malformed, read

MOST = 64
"""So many of the newest copies are kept in mind."""
LONGEST = 1 << 20
"""A larger blob is no answer of a model."""

_BEGINNINGS = (b"{", b"\n")
_OF_THE_MODEL = re.compile(rb'"role"\s*:\s*"assistant"')


class StoredText(NamedTuple):
    """What a copy holds beyond what was streamed."""

    thinking: str
    text: str


class _Piece(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[_Piece] = ""


_MESSAGE = msgspec.json.Decoder(_Message)


class StoredAnswers:
    """The copies of this run beside what it streamed."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known = frozenset(blob_id for blob_id, _ in blobs.items())
        """What the run began with is history."""
        self._copies: deque[bytes] = deque(maxlen=MOST)
        self._said: list[str] = []
        self._said_before: list[str] = []

    def keep(self, blob_id: bytes, data: bytes) -> None:
        """The service stores a blob; it is read only when it is needed."""
        if len(data) <= LONGEST and blob_id not in self._known and _may_be_an_answer(data):
            self._copies.append(data)

    def said(self, text: str) -> None:
        """This text was streamed."""
        self._said.append(text)

    @property
    def step(self) -> str:
        """The text of this step that was streamed."""
        return "".join(self._said)

    def take_over(self, before: "StoredAnswers") -> None:
        """What another run streamed counts as streamed."""
        self._said = list(before._said)
        self._said_before = list(before._said_before)

    def next_step(self) -> None:
        """A call was made or answered: what is said from now on is another step, and copies of earlier ones are old."""
        self._said_before += self._said
        self._said = []
        self._copies.clear()

    def has_said(self, text: str, being_said: str = "") -> bool:
        """Whether this was streamed, blank space aside."""
        return _squeezed(text) in _squeezed("".join((*self._said_before, *self._said, being_said)))

    def unseen(self, being_said: str = "") -> StoredText | None:
        """Return what the newest copy holds that was never streamed; `being_said` is the text of the open part."""
        if not self._copies:
            return None
        step = (self.step + being_said).lstrip()
        for data in reversed(self._copies):
            found = _assistant_text(data)
            if found is None:
                continue
            if found.text == step.rstrip():
                return None  # nearly always: the copy of what has just been streamed
            if self.has_said(found.text, being_said) or self._is_history(found.text):
                continue
            if not step:
                return found
            if found.text.startswith(step):
                return StoredText("", found.text[len(step) :])
        return None

    def _is_history(self, text: str) -> bool:
        """Whether the run began with this: the service may store earlier answers again."""
        wanted = _squeezed(text)
        return any(_squeezed(found.text) == wanted for found in self._history())

    def _history(self) -> Iterator[StoredText]:
        for blob_id, data in self._blobs.items():
            if blob_id in self._known and data[:1] in _BEGINNINGS:
                found = _assistant_text(data)
                if found is not None:
                    yield found


def _may_be_an_answer(data: bytes) -> bool:
    """Most of what the service stores is prompts, which are large and would be kept in mind for nothing."""
    return data[:1] == b"\n" or (data[:1] == b"{" and _OF_THE_MODEL.search(data) is not None)


def _assistant_text(data: bytes) -> StoredText | None:
    """The answer in a copy. One that goes on with a call was no answer, and led to the call long ago."""
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
