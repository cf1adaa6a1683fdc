"""Connect envelopes: bytes cut into frames, however they arrive.

A frame is one byte of flags, four bytes of length (big endian) and the payload. Three flags have a meaning here: the
payload is compressed; it is the JSON that ends a Connect stream; it is the text of trailers that ends a gRPC-Web one.
Endings are frames like any other: what they say is for whoever reads the payloads.
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
_new = tuple.__new__  # half of what calling the class costs, and there may be thousands in one read


class Frame(NamedTuple):
    """One frame, its payload as it was before it was compressed."""

    flags: int
    payload: bytes


class FramingError(Exception):
    """The bytes are no frames, or larger than any that a service sends.

    `frames` are the good ones before, `rest` is what there was from the bad one on.
    """

    def __init__(self, message: str, frames: list[Frame] | None = None, rest: bytes = b"") -> None:
        super().__init__(message)
        self.frames = frames or []
        self.rest = rest


class FrameReader:
    """Feed it reads of any size; it gives whole frames. After an error it is good for nothing."""

    def __init__(self, *, gzip: bool = True, limit: int = LIMIT, expanded: int = LIMIT) -> None:
        self._gzip = gzip
        self._limit = limit
        self._expanded = expanded
        self._held: list[bytes] = []
        self._held_size = 0
        self._wanted = _HEAD_SIZE
        """How many bytes there must be before it is worth looking again: a large frame is joined once."""
        self._broken = ""

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return self._held_size

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now."""
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
        """Cut off the frames that are whole; where the rest begins."""
        begin, end = 0, len(data)
        unpack, add, limit = _HEAD.unpack_from, frames.append, self._limit
        while begin + _HEAD_SIZE <= end:
            flags, size = unpack(data, begin)
            if size > limit:
                self._break(f"a frame of {size} bytes, where {limit} are the most", frames, data[begin:])
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
            raise FramingError("a compressed frame, though no compression was agreed upon")
        if not payload:
            return payload
        stream = zlib.decompressobj(_GZIP)
        expanded = stream.decompress(payload, self._expanded + 1)
        if len(expanded) > self._expanded:
            raise FramingError(f"a compressed frame that expands to more than {self._expanded} bytes")
        if not stream.eof:
            raise FramingError("a compressed frame that breaks off")
        return expanded


def frame(payload: bytes, flags: int = 0) -> bytes:
    """A payload in its envelope."""
    return _HEAD.pack(flags, len(payload)) + payload
