"""The Anthropic Messages protocol, in both roles.

As a server, the gateway uses `parse_request` (in the modules parse*), and `ResponseWriter` and `render` (in writer). As
a client, it uses `build_request` (in the modules build*), and `ResponseReader` and `read_reply` (in reader). `schema`
defines the JSON structures; `errors` reads and renders error responses.
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
