"""What the readers of all HTTP dialects share: bytes of a stream in, batches of events out.

If the client speaks the dialect of the upstream, each batch carries the frames it was read from (see `model.source`). A
frame that yields no event waits for the next that does, so that frames and events stay in step. From the first frame
that needed any tolerance on, no frames are carried: the writer then works from the events alone.
"""

from typing import ClassVar

from tieline.model.assemble import PartsWriter
from tieline.model.events import Event, Failed, SourcedBatch
from tieline.model.source import AnswerSource
from tieline.wire.framing.sse import SseOverflow, SseReader
from tieline.wire.shared.delta_frames import DeltaFrame
from tieline.wire.shared.json import Malformed, encode

MAX_WAITING = 1024 * 1024
"""Bytes of frames that may wait for an event."""


class StreamReader:
    """Reads one answer. A dialect implements `_receive` and `_end_of_stream`."""

    protocol: ClassVar[str]

    def __init__(self, keep_source: bool) -> None:
        self.ended = False
        """Whether the ending was returned; everything after it is ignored."""
        self._sse = SseReader()
        self._frame = DeltaFrame()
        self._parts = PartsWriter()
        self._is_exact = keep_source
        """Whether the frames so far mean exactly what the events say."""
        self._model_member = b""
        """The member of the frames that names the model, as the upstream writes it."""
        self._waiting = b""
        """Frames that have not yielded an event yet."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that are complete now."""
        if self.ended:
            return []
        try:
            return self._read(self._sse.whole(data))
        except (SseOverflow, Malformed, UnicodeDecodeError) as error:
            self._fail_unreadable(error)
            return self._parts.take()

    def close(self) -> list[Event]:
        """Return the last events at the end of the stream; a stream without an ending is a failure."""
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

    def _receive(self, block: bytes) -> None:
        """Read one event of the stream, without its blank line."""
        raise NotImplementedError

    def _end_of_stream(self) -> None:
        """Handle a stream that is over without having said so."""
        raise NotImplementedError

    def _read(self, text: bytes) -> list[Event]:
        """Read whole blocks, each followed by its blank line; only the last may lack it."""
        parts, frame = self._parts, self._frame
        start = covered = count = 0
        while start < len(text) and not self.ended:
            end = text.find(b"\n\n", start) + 2
            if end < 2:
                end = len(text)
            block = text[start:end]
            delta = frame.text_in(block) if frame.key is not None else None
            if delta is not None:
                parts.add(frame.key, delta)
            else:
                self._is_exact = self._is_exact and block.count(b"\ndata:") + block.startswith(b"data:") <= 1
                self._receive(block.removesuffix(b"\n\n"))
            if len(parts.events) > count:
                count, covered = len(parts.events), end
            start = end
        return self._sourced(parts.take(), text, covered)

    def _sourced(self, events: list[Event], text: bytes, covered: int) -> list[Event]:
        """Attach the frames up to `covered` to the events, and let the rest of the text wait."""
        if not self._is_exact or self._parts.is_holding:
            self._is_exact = False
            return events
        text, covered = self._waiting + text, len(self._waiting) + covered
        if not events:
            self._waiting = text
            self._is_exact = len(text) <= MAX_WAITING
            return events
        self._waiting = text[covered:]
        return SourcedBatch(events, AnswerSource(self.protocol, text[:covered], True, model=self._model_member))

    def _whole(self, body: bytes) -> list[Event]:
        """Return the events of an answer that did not stream, with its body as their source."""
        events = self._parts.take()
        return SourcedBatch(events, AnswerSource(self.protocol, body, False)) if self._is_exact else events

    def _find_model(self, model: str | None, text: bytes) -> None:
        """Find how the upstream spells the model's name, which the client sees under the name it asked for."""
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
