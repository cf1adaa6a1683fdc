"""OpenAI Chat Completions, in both roles: what clients ask of us, and what we ask of upstreams."""

from tieline.wire.openai_chat.build import build_request
from tieline.wire.openai_chat.dialect import Dialect
from tieline.wire.openai_chat.errors import read_error, render_error
from tieline.wire.openai_chat.parse import is_legacy, parse_request
from tieline.wire.openai_chat.reader import ResponseReader, read_reply
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.openai_chat.writer import KEEP_ALIVE, Options, ResponseWriter, render

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
