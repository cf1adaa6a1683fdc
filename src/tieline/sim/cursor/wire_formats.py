"""The wire formats that clients use, by content type: the framing of bodies, the end of streams, and errors."""

import zlib
from typing import Literal

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError, Message

from tieline.model.content import Value
from tieline.sim.cursor.refusals import ServiceRefusal
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
    """A request body cannot be decoded."""


class WireFormat(Value):
    """The encoding of an HTTP call. `content_type` is the content type of both its request and its response."""

    framing: Framing
    content_type: str

    @property
    def is_streamed(self) -> bool:
        """Whether the format supports streams."""
        return self.framing in _STREAMED

    def read(self, body: bytes, into: Message) -> None:
        """Parse a request body, and store its only message in `into`. Raise Unreadable if the body is invalid."""
        try:
            if self.framing == "json":
                Parse(body or b"{}", into, ignore_unknown_fields=True)
            else:
                into.MergeFromString(self._unwrapped(body))
        except (ParseError, DecodeError, FramingError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(str(error)) from error

    def whole(self, message: Message) -> bytes:
        """Return the body of a successful response to a unary call. It contains `message`."""
        match self.framing:
            case "json":
                return MessageToJson(message, indent=None).encode()
            case "proto":
                return message.SerializeToString()
            case "connect":
                return frame(message.SerializeToString()) + frame(b"{}", END)
            case "grpc-web":
                return frame(message.SerializeToString()) + frame(b"grpc-status: 0\r\n", TRAILERS)

    def refused(self, refusal: ServiceRefusal) -> tuple[int, str, bytes]:
        """Return the status, content type and body of the response to a unary call that fails with this refusal."""
        if self.framing == "grpc-web":
            return 200, self.content_type, frame(refusal.trailers(), TRAILERS)
        if self.framing == "connect":
            return 200, self.content_type, frame(refusal.end(), END)
        status, body = refusal.whole()
        return status, "application/json", body

    def end(self, refusal: ServiceRefusal | None) -> bytes:
        """Return the last frame of a stream. It reports `refusal` or, if that is None, success."""
        if self.framing == "grpc-web":
            return frame(refusal.trailers() if refusal else b"grpc-status: 0\r\n", TRAILERS)
        return frame(refusal.end() if refusal else b"{}", END)

    def _unwrapped(self, body: bytes) -> bytes:
        if not self.is_streamed:
            return body
        frames = FrameReader().feed(body)
        if not frames:
            raise FramingError("the frame is incomplete")
        return frames[0].payload


def wire_format_of(content_type: str) -> WireFormat | None:
    """Return the wire format of a content type; None if it is not supported."""
    framing = _FRAMINGS.get(content_type.partition(";")[0].strip().lower())
    return WireFormat(framing=framing, content_type=content_type) if framing else None


def decompressed(body: bytes, encoding: str) -> bytes:
    """Decode a body with this content encoding. Raise Unreadable if that is not possible."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Unreadable(f"unknown content encoding {encoding[:40]!r}")
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        data = stream.decompress(body, EXPANDED_LIMIT)
    except zlib.error as error:
        raise Unreadable(f"the body is not valid gzip: {error}") from error
    if not stream.eof:
        raise Unreadable("the compressed body is incomplete or too large")
    return data


def compressed_frame(message: bytes) -> bytes:
    """Compress a message and return it in a frame."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return frame(packer.compress(message) + packer.flush(), COMPRESSED)
