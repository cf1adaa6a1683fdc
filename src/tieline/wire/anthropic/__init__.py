"""The Anthropic Messages protocol, both roles.

Server role: `parse_request` (in `parse`, its blocks in `blocks`), `ResponseWriter` and `render` (in `writer`). Client
role: `build_request` (in `build`; history in `turns` and `parts`, tools in `tools`, thoughts in `thinking`, cache marks
in `marks`, JSON answers in `structured`; what is remembered of it all in `pieces`), `ResponseReader` (in `reader`) and
`read_reply` (in `reply`), for both usage and endings in `endings`. Shapes are in `schema`, errors in `errors`.
"""

from tieline.wire.anthropic.build import build_count, build_request, read_count
from tieline.wire.anthropic.dialect import Dialect, Options
from tieline.wire.anthropic.errors import read_error, render_error
from tieline.wire.anthropic.parse import parse_request
from tieline.wire.anthropic.reader import ResponseReader
from tieline.wire.anthropic.reply import read_reply
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
