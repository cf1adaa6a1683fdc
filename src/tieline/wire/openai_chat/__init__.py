"""The OpenAI Chat Completions protocol, in both roles.

As a server: `parse_request` (parse*), `ResponseWriter` and `render` (writer). As a client: `build_request` (build*),
`ResponseReader` and `read_reply` (reader). `schema` has the shapes of the JSON, `errors` both sides of error responses.
"""

from tieline.wire.openai_chat.build import build_request
from tieline.wire.openai_chat.dialect import Dialect, Options
from tieline.wire.openai_chat.errors import read_error, render_error
from tieline.wire.openai_chat.parse import is_legacy, parse_request
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
    "build_request",
    "is_legacy",
    "parse_request",
    "read_error",
    "read_reply",
    "render",
    "render_error",
]
