"""The OpenAI Chat Completions protocol, in both roles.

As a server, the gateway uses `parse_request` (in parse*), `ResponseWriter` and `render` (in writer). As a client, it
uses `build_request` (in build*), `ResponseReader` and `read_reply` (in reader). `schema` defines the JSON structures;
`errors` reads and renders error responses.
"""

from tieline.wire.openai_chat.build import build_request
from tieline.wire.openai_chat.dialect import Dialect, Options
from tieline.wire.openai_chat.errors import read_error, render_error
from tieline.wire.openai_chat.parse import ResponsesBody, is_legacy, parse_request
from tieline.wire.openai_chat.reader import ResponseReader, read_reply
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.openai_chat.writer import KEEP_ALIVE, ResponseWriter, render

__all__ = [
    "KEEP_ALIVE",
    "PROTOCOL",
    "Dialect",
    "Options",
    "ResponseReader",
    "ResponseWriter",
    "ResponsesBody",
    "build_request",
    "is_legacy",
    "parse_request",
    "read_error",
    "read_reply",
    "render",
    "render_error",
]
