"""Connect envelopes: split a byte stream into frames.

A frame consists of one byte of flags, the length of the payload in four bytes (big endian), and the payload. The flags
say whether the payload is compressed (COMPRESSED), is the JSON message that ends a Connect stream (END), or is the text
of the trailers that end a gRPC-Web stream (TRAILERS). Frames that end a stream are returned like all other frames;
their payload is not interpreted here.
"""

import zlib
from struct import Struct
from typing import NamedTuple, NoReturn

COMPRESSED = 0x01
END = 0x02
TRAILERS = 0x80

LIMIT = 64 * 1024 * 1024

_HEAD = Struct(">BI")
_HEAD_SIZE = _HEAD.size
_GZIP = 16 + zlib.MAX_WBITS
_new = tuple.__new__  # half the cost of calling the class; a read may contain thousands of frames


class Frame(NamedTuple):
    """One frame, with its payload decompressed."""

    flags: int
    payload: bytes


class FramingError(Exception):
    """A frame is invalid or too large.

    `frames` are the valid frames before it that `feed` has not returned yet; `rest` holds all bytes from the start of
    the invalid frame.
    """

    def __init__(self, message: str, frames: list[Frame] | None = None, rest: bytes = b"") -> None:
        super().__init__(message)
        self.frames = frames or []
        self.rest = rest


class FrameReader:
    """Splits reads of any size into frames. After an error, every further call to `feed` raises the same error.

    If `gzip` is false, compressed frames are invalid. `limit` is the maximum size of a payload as received, and
    `expanded` is its maximum size after decompression.
    """

    def __init__(self, *, gzip: bool = True, limit: int = LIMIT, expanded: int = LIMIT) -> None:
        self._gzip = gzip
        self._limit = limit
        self._expanded = expanded
        self._held: list[bytes] = []
        self._held_size = 0
        self._wanted = _HEAD_SIZE
        """The number of bytes to collect before the chunks are joined. A large frame is thus copied only once."""
        self._broken = ""

    @property
    def pending(self) -> int:
        """The number of bytes of the incomplete frame that have been received."""
        return self._held_size

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes. Raise FramingError if a frame is invalid or too large."""
        if self._broken:
            raise FramingError(self._broken)
        if self._held:
            self._hold(data)
            if self._held_size < self._wanted:
                return []
            data = b"".join(self._held)
            self._held.clear()
            self._held_size = 0
        frames: list[Frame] = []
        rest = self._cut(data, frames)
        if rest < len(data):
            self._hold(data[rest:] if rest else data)
        return frames

    def _cut(self, data: bytes, frames: list[Frame]) -> int:
        """Append the complete frames in `data` to `frames`. Return the offset of the first byte after them."""
        begin, end = 0, len(data)
        unpack, add, limit = _HEAD.unpack_from, frames.append, self._limit
        while begin + _HEAD_SIZE <= end:
            flags, size = unpack(data, begin)
            if size > limit:
                self._break(f"a frame of {size} bytes exceeds the limit of {limit} bytes", frames, data[begin:])
            payload = begin + _HEAD_SIZE
            stop = payload + size
            if stop > end:
                self._wanted = stop - begin
                return begin
            if not flags & COMPRESSED:
                add(_new(Frame, (flags, data[payload:stop])))
            else:
                try:
                    add(Frame(flags & ~COMPRESSED, self._expand(data[payload:stop])))
                except (FramingError, zlib.error) as error:
                    self._break(str(error), frames, data[begin:])
            begin = stop
        self._wanted = _HEAD_SIZE
        return begin

    def _break(self, problem: str, frames: list[Frame], rest: bytes) -> NoReturn:
        self._broken = problem
        raise FramingError(problem, frames, rest)

    def _hold(self, data: bytes) -> None:
        if data:
            self._held.append(data)
            self._held_size += len(data)

    def _expand(self, payload: bytes) -> bytes:
        if not self._gzip:
            raise FramingError("a compressed frame, although no compression was negotiated")
        if not payload:
            return payload
        stream = zlib.decompressobj(_GZIP)
        expanded = stream.decompress(payload, self._expanded + 1)
        if len(expanded) > self._expanded:
            raise FramingError(f"a compressed frame that expands to more than {self._expanded} bytes")
        if not stream.eof:
            raise FramingError("a compressed frame is incomplete")
        return expanded


def frame(payload: bytes, flags: int = 0) -> bytes:
    """Return a frame: a header with these flags, followed by the payload."""
    return _HEAD.pack(flags, len(payload)) + payload
