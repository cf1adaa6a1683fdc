"""The base class of the readers for HTTP protocols, which translate the bytes of a stream into batches of events.

Most upstreams send each delta with the same bytes before and after its text. These two byte strings are called the
*delta frame*. Once a reader knows the delta frame, it extracts the text of the following deltas without decoding each
event. A delta frame is used only after a check: if the text in a delta is replaced by another string, the decoded event
must differ only in that string.

If the client and the upstream use the same protocol, each batch has the frames it was read from as its source (see
`model.source`). A frame that yields no event is held and added to the source of the next batch, so that no frame is
lost. If a frame is not exactly equivalent to its events, its batch and all later batches have no source, and the writer
uses only the events.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from itertools import repeat, takewhile
from typing import ClassVar

import msgspec

from tieline.model.assemble import PartsWriter
from tieline.model.events import Event, Failed, SourcedBatch
from tieline.model.source import AnswerSource
from tieline.wire.framing.sse import SseOverflow, SseReader
from tieline.wire.shared.json import Malformed, encode

MAX_HELD = 1024 * 1024
"""Maximum total size in bytes of held frames without an event. If they are larger, later batches have no source."""
TRIAL = "\x00"
"""The text that is inserted in place of a delta's text to check the delta frame."""

_MAX_ATTEMPTS = 6
"""Maximum number of attempts to learn the delta frame of a part. Some upstreams write every delta differently."""
_LF = ord("\n")
_decode_texts = msgspec.json.Decoder(list[str]).decode


class DeltaFrame:
    """The bytes before and after the text in each delta of one part, learned from the stream.

    `key` is the key of that part, or None while no delta frame is known. The bytes before the text may contain one
    number that differs from delta to delta.
    """

    key: Hashable | None = None
    _before = _after = b""
    _after_number = b""
    """The bytes between the changing number and the text; empty if there is no such number."""
    _size = 0
    _attempted: Hashable | None = None
    """The key of the part of the last attempt to learn a delta frame."""
    _attempts = 0
    """The number of attempts left for that part."""

    def texts_in(self, text: bytes, start: int) -> tuple[list[str], int]:
        """Return the texts of the consecutive blocks, starting at the offset `start`, that match the delta frame.

        Also return the offset of the block after them; this is `start` if the list is empty.

        The texts are decoded together, as one JSON array of strings, because a read often contains several deltas.
        """
        before = self._before
        blocks = text[start:].split(self._after)
        blocks.pop()
        if self._after_number:
            return self._numbered_texts(blocks, start)
        if not all(map(bytes.startswith, blocks, repeat(before))):
            blocks = [*takewhile(lambda block: block.startswith(before), blocks)]
        bodies = [*map(bytes.removeprefix, blocks, repeat(before))]
        joined = b'","'.join(bodies)
        is_clear = joined.count(b'","') == len(bodies) - 1 and joined.find(b'\\","') < 0 and _LF not in joined
        if not bodies or not is_clear:
            return self._first_text(text, start)
        try:
            texts = _decode_texts(b'["%b"]' % joined)
        except ValueError:
            return self._first_text(text, start)
        return texts, start + len(joined) - 3 * (len(bodies) - 1) + self._size * len(bodies)

    def _numbered_texts(self, blocks: list[bytes], start: int) -> tuple[list[str], int]:
        """Like `texts_in`, for a delta frame with a number. Each of `blocks` ends directly after its text."""
        bodies = []
        end = start
        for block in blocks:
            number, found, body = block.removeprefix(self._before).partition(self._after_number)
            if not found or not number.isdigit() or _LF in body or not block.startswith(self._before):
                break
            bodies.append(body)
            end += len(block) + len(self._after)
        joined = b'","'.join(bodies)
        if not bodies or joined.count(b'","') != len(bodies) - 1 or joined.find(b'\\","') >= 0:
            return [], start
        try:
            return _decode_texts(b'["%b"]' % joined), end
        except ValueError:
            return [], start

    def _first_text(self, text: bytes, start: int) -> tuple[list[str], int]:
        """Like `texts_in`, but read only the block at `start`."""
        end = text.find(b"\n\n", start) + 2
        block = text[start:end]
        body = block.removeprefix(self._before).removesuffix(self._after)
        if len(block) - len(body) != self._size or _LF in body:
            return [], start
        try:
            texts = _decode_texts(b'["%b"]' % body)
        except ValueError:
            return [], start
        return (texts, end) if len(texts) == 1 else ([], start)

    def learn(
        self,
        key: Hashable,
        block: bytes,
        field: str,
        text: str,
        means_same: Callable[[bytes], bool],
        number: str = "",
    ) -> None:
        """Learn the delta frame of the part `key` from a block whose only content is `text` in `field`.

        Do nothing after a few attempts for the same part in a row.

        `means_same` receives the block with TRIAL as its text. It must return whether the decoded event differs from
        the original only in its text. `number` is the name of a member whose value is a number that differs from delta
        to delta.
        """
        if key != self._attempted:
            self._attempted, self._attempts = key, _MAX_ATTEMPTS
        if self._attempts == 0:
            return
        self._attempts -= 1
        try:
            literal = encode(text)
            space = b" " if b'": ' in block else b""
            before, found, after = block.partition(b'"%b":%b%b' % (field.encode(), space, literal))
            before += found.removesuffix(literal)
            if means_same(before + encode(TRIAL) + after):
                self.key = key
                self._before, self._after = before + b'"', b'"' + after + b"\n\n"
                self._after_number = b""
                if number:
                    self._split_number(b'"%b":%b' % (number.encode(), space))
                self._size = len(self._before) + len(self._after)
        except ValueError:  # a lone surrogate, or the upstream encodes the text differently
            return

    def _split_number(self, member: bytes) -> None:
        """Split the bytes before the text at the number after `member`. If there is none, forget the delta frame."""
        head, found, rest = self._before.partition(member)
        tail = rest.lstrip(b"0123456789")
        if not found or tail == rest:
            self.key = None
        self._before, self._after_number = head + found, tail

    def forget(self, key: Hashable) -> None:
        """Forget the delta frame of the part with this key, because the part has ended."""
        if self.key == key:
            self.key = None


class StreamReader(ABC):
    """Base class for readers, each of which reads one answer. Subclasses implement `_receive` and `_end_of_stream`.

    `keep_source` says whether to attach the wire text to each batch as its source.
    """

    protocol: ClassVar[str]
    ended = False
    """Whether the ending of the leg has been returned. All later data is ignored."""
    _model_member = b""
    """The JSON member with the model name, as the upstream writes it."""
    _held = b""
    """Frames that have not yielded an event yet. They become part of the next source."""

    def __init__(self, keep_source: bool) -> None:
        self._sse = SseReader()
        self._frame = DeltaFrame()
        self._parts = PartsWriter()
        self._is_exact = keep_source
        """Whether batches still have a source. Becomes false if a frame is not exactly equivalent to its events."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes. If the data is unreadable, the leg ends with Failed."""
        if self.ended:
            return []
        try:
            return self._read(self._sse.whole(data))
        except (SseOverflow, Malformed, UnicodeDecodeError) as error:
            self._fail_unreadable(error)
            return self._parts.take()

    def close(self) -> list[Event]:
        """End the stream and return the last events. If the stream broke off, the leg ends with Failed."""
        if self.ended:
            return []
        try:
            events = self._read(self._sse.close()[0])
            if not self.ended:
                self._is_exact = False
                self._end_of_stream()
                events = [*events, *self._parts.take()]
        except (SseOverflow, Malformed, UnicodeDecodeError) as error:
            self._fail_unreadable(error)
            events = self._parts.take()
        return events

    @abstractmethod
    def _receive(self, block: bytes) -> None:
        """Read one block of the stream, without its blank line, and pass its content to `_parts`."""

    def _add_deltas(self, key: Hashable, texts: Sequence[str]) -> None:
        """Add the texts of several deltas to the part with this key, whose delta frame is known."""
        self._parts.add_all(key, texts)

    @abstractmethod
    def _end_of_stream(self) -> None:
        """Handle a stream that ended without its final event."""

    def _read(self, text: bytes) -> list[Event]:
        """Return the events in `text`, which consists of complete blocks.

        A blank line follows each block, but may be missing after the last one.
        """
        parts, frame = self._parts, self._frame
        start = covered = count = 0
        while start < len(text) and not self.ended:
            texts: Sequence[str] = ()
            end = start
            if frame.key is not None:
                texts, end = frame.texts_in(text, start)
            if texts:
                self._add_deltas(frame.key, texts)
            else:
                end = text.find(b"\n\n", start)
                end = len(text) if end < 0 else end + 2
                block = text[start:end]
                self._is_exact = self._is_exact and block.count(b"\ndata:") + block.startswith(b"data:") <= 1
                self._receive(block.removesuffix(b"\n\n"))
            if len(parts.events) > count:
                count, covered = len(parts.events), end
            start = end
        return self._sourced(parts.take(), text, covered)

    def _sourced(self, events: list[Event], text: bytes, covered: int) -> list[Event]:
        """Return the events with the held frames and `text[:covered]` as their source. Hold `text[covered:]`.

        Return the events without a source if the text and the events are not equivalent.
        """
        if not self._is_exact or self._parts.is_holding:
            self._is_exact = False
            return events
        text, covered = self._held + text, len(self._held) + covered
        if not events:
            self._held = text
            self._is_exact = len(text) <= MAX_HELD
            return events
        self._held = text[covered:]
        return SourcedBatch(events, AnswerSource(self.protocol, text[:covered], True, model=self._model_member))

    def _whole(self, body: bytes) -> list[Event]:
        """Return the events of a non-streaming answer, with its body as their source if the two are equivalent."""
        events = self._parts.take()
        return SourcedBatch(events, AnswerSource(self.protocol, body, False)) if self._is_exact else events

    def _find_model(self, model: str | None, text: bytes) -> None:
        """Find the JSON member with the model name in `text`. The writer replaces it with the client's model name."""
        if not self._is_exact or not model:
            return
        compact, spaced = b'"model":%b' % encode(model), b'"model": %b' % encode(model)
        self._model_member = compact if compact in text else spaced
        self._is_exact = self._model_member in text

    def _fail(self, failed: Failed) -> None:
        self._is_exact = False
        if not self.ended:
            self._parts.events.append(failed)
            self.ended = True

    def _fail_unreadable(self, error: Exception) -> None:
        self._fail(Failed(kind="upstream", message=f"the upstream's answer cannot be parsed: {error}", status=502))
