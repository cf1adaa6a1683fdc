"""The Anthropic Messages protocol, in both roles.

As a server: `parse_request` (parse*), `ResponseWriter` and `render` (writer). As a client: `build_request` (build*),
`ResponseReader` and `read_reply` (reader). `schema` has the shapes of the JSON, `errors` both sides of error responses.
"""

from tieline.wire.anthropic.build import build_count, build_request, read_count
from tieline.wire.anthropic.dialect import Dialect, Options
from tieline.wire.anthropic.errors import read_error, render_error
from tieline.wire.anthropic.parse import parse_request
from tieline.wire.anthropic.reader import ResponseReader, read_reply
from tieline.wire.anthropic.schema import PROTOCOL
from tieline.wire.anthropic.writer import KEEP_ALIVE, ResponseWriter, render

__all__ = [
    "KEEP_ALIVE",
    "PROTOCOL",
    "Dialect",
    "Options",
    "ResponseReader",
    "ResponseWriter",
    "build_count",
    "build_request",
    "parse_request",
    "read_count",
    "read_error",
    "read_reply",
    "render",
    "render_error",
]
