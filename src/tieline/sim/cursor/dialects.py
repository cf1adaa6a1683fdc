"""The dialects a client may speak, told by its content type: how bodies are framed, how streams end, how calls fail."""

import zlib
from typing import Literal

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError, Message

from tieline.model.content import Value
from tieline.sim.cursor.refusals import Refusal
from tieline.wire.framing.connect import COMPRESSED, END, TRAILERS, FrameReader, FramingError, frame

Framing = Literal["proto", "json", "connect", "grpc-web"]

EXPANDED_LIMIT = 64 * 1024 * 1024

_FRAMINGS: dict[str, Framing] = {
    "application/proto": "proto",
    "application/x-protobuf": "proto",
    "application/json": "json",
    "application/connect+proto": "connect",
    "application/grpc-web+proto": "grpc-web",
    "application/grpc-web": "grpc-web",
}
_STREAMED: tuple[Framing, ...] = ("connect", "grpc-web")


class Unreadable(Exception):
    """The body is not what its content type says."""


class Dialect(Value):
    """One of them. `content_type` is what the client sent: it is answered in kind."""

    framing: Framing
    content_type: str

    @property
    def is_streamed(self) -> bool:
        """Whether a stream can be answered in it."""
        return self.framing in _STREAMED

    def read(self, body: bytes, into: Message) -> None:
        """One message, out of its envelope if it has one; raises Unreadable."""
        try:
            if self.framing == "json":
                Parse(body or b"{}", into, ignore_unknown_fields=True)
            else:
                into.MergeFromString(self._unwrapped(body))
        except (ParseError, DecodeError, FramingError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(str(error)) from error

    def whole(self, message: Message) -> bytes:
        """The body of the answer to a single call."""
        match self.framing:
            case "json":
                return MessageToJson(message, indent=None).encode()
            case "proto":
                return message.SerializeToString()
            case "connect":
                return frame(message.SerializeToString()) + frame(b"{}", END)
            case "grpc-web":
                return frame(message.SerializeToString()) + frame(b"grpc-status: 0\r\n", TRAILERS)

    def refused(self, refusal: Refusal) -> tuple[int, str, bytes]:
        """How a single call fails: the status, the content type and the body."""
        if self.framing == "grpc-web":
            return 200, self.content_type, frame(refusal.trailers(), TRAILERS)
        if self.framing == "connect":
            return 200, self.content_type, frame(refusal.end(), END)
        status, body = refusal.whole()
        return status, "application/json", body

    def end(self, refusal: Refusal | None) -> bytes:
        """The last frame of a stream."""
        if self.framing == "grpc-web":
            return frame(refusal.trailers() if refusal else b"grpc-status: 0\r\n", TRAILERS)
        return frame(refusal.end() if refusal else b"{}", END)

    def _unwrapped(self, body: bytes) -> bytes:
        if not self.is_streamed:
            return body
        frames = FrameReader().feed(body)
        if not frames:
            raise FramingError("there is no whole frame")
        return frames[0].payload


def dialect_of(content_type: str) -> Dialect | None:
    """The dialect of a content type, None for one that nobody speaks here."""
    framing = _FRAMINGS.get(content_type.partition(";")[0].strip().lower())
    return Dialect(framing=framing, content_type=content_type) if framing else None


def expanded(body: bytes, encoding: str) -> bytes:
    """A body without its content encoding; raises Unreadable."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Unreadable(f"the content encoding {encoding[:40]!r} is not known")
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        data = stream.decompress(body, EXPANDED_LIMIT)
    except zlib.error as error:
        raise Unreadable(f"this is no gzip: {error}") from error
    if not stream.eof:
        raise Unreadable("the compressed body breaks off, or is too large")
    return data


def squeezed(message: bytes) -> bytes:
    """A message as a compressed frame."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return frame(packer.compress(message) + packer.flush(), COMPRESSED)
