"""The OpenAI Responses protocol, in both roles.

As a server, the gateway uses `parse_request` (in parse*), `ResponseWriter` and `render` (in writer). As a client, it
uses `build_request` (in build*), `ResponseReader` and `read_reply` (in reader). `schema` defines the JSON structures;
`errors` reads and renders error responses.
"""

from tieline.wire.openai_responses.build import build_request
from tieline.wire.openai_responses.compaction import summary_request, wants_compaction
from tieline.wire.openai_responses.dialect import Dialect, Options
from tieline.wire.openai_responses.echo import echo_of, wants_encrypted, without_credentials
from tieline.wire.openai_responses.errors import read_error, render_error
from tieline.wire.openai_responses.names import offered_tools
from tieline.wire.openai_responses.parse import KnownItems, parse_request
from tieline.wire.openai_responses.reader import ResponseReader, read_reply
from tieline.wire.openai_responses.recovery import lacks_encryption, recovered, rejects_checkpoint
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.openai_responses.writer import KEEP_ALIVE, ResponseWriter, render, render_compaction

__all__ = [
    "KEEP_ALIVE",
    "PROTOCOL",
    "Dialect",
    "KnownItems",
    "Options",
    "ResponseReader",
    "ResponseWriter",
    "build_request",
    "echo_of",
    "lacks_encryption",
    "offered_tools",
    "parse_request",
    "read_error",
    "read_reply",
    "recovered",
    "rejects_checkpoint",
    "render",
    "render_compaction",
    "render_error",
    "summary_request",
    "wants_compaction",
    "wants_encrypted",
    "without_credentials",
]
