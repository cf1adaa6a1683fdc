"""Convert server-sent events to JSON, for WebSocket messages and background responses, and back."""

from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.errors import GatewayError
from tieline.wire.openai_responses.errors import render_error
from tieline.wire.shared.json import encode

DROPPED = "tieline_dropped"
"""The key in the `metadata` of a response under which dropped content is listed."""
MAX_METADATA = 512
"""Maximum length of a value in `metadata`."""

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])


def events_in(written: bytes) -> list[bytes]:
    """Return the JSON of each event in `written`, which consists of complete server-sent events."""
    pieces = (b"\n" + written).split(b"\ndata:")[1:]  # the JSON of an event is always on one line
    return [piece.partition(b"\n")[0].strip() for piece in pieces]


def with_stream_id(event: bytes, stream_id: str) -> bytes:
    """Return the JSON of an event with the member `stream_id` added."""
    return b'%b,"stream_id":%b}' % (event.rstrip()[:-1], encode(stream_id))


def error_frame(error: GatewayError) -> bytes:
    """Return an error as a WebSocket message."""
    body: dict[str, Any] = msgspec.json.decode(render_error(error))
    return encode({"type": "error", "status": error.status, **body})


def begun_response(written: bytes) -> bytes:
    """Return the JSON of the response in the first of these server-sent events."""
    return bytes(_MEMBERS.decode(events_in(written)[0])["response"])


def with_response(event: bytes, response: bytes) -> bytes:
    """Return the event with its response replaced."""
    return encode({**_MEMBERS.decode(event), "response": Raw(response)})


def with_dropped(response: bytes, dropped: str) -> bytes:
    """Return the response with `dropped`, which lists the content that could not be translated, in its `metadata`."""
    members = _MEMBERS.decode(response)
    metadata: object = msgspec.json.decode(members.get("metadata", b"null"))
    given = metadata if isinstance(metadata, dict) else {}
    return encode({**members, "metadata": {**given, DROPPED: dropped[:MAX_METADATA]}})


def server_sent(event: bytes) -> bytes:
    """Return the JSON of an event as a server-sent event."""
    kind: str = msgspec.json.decode(_MEMBERS.decode(event)["type"])
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), event)


def with_status(response: bytes, status: str) -> bytes:
    """Return the response with this status, and with `error` set to null."""
    return encode({**_MEMBERS.decode(response), "status": status, "error": None})
