"""Cache marks: those the client set, or the ones an experienced client would have set.

The API caches the prompt up to each mark and looks only at the marks for something to reuse; four is the most it takes.
"""

from collections.abc import Sequence

from tieline.wire.anthropic.schema import (
    DocumentBlock,
    ImageBlock,
    MarkedBlock,
    TextBlock,
    Tool,
    ToolResultOut,
    ToolUseBlock,
)
from tieline.wire.anthropic.turns import Turn

MOST = 4
MARK = {"type": "ephemeral"}

_MARKABLE = (TextBlock, ImageBlock, DocumentBlock, ToolUseBlock, ToolResultOut)


def keep_the_last(marked: Sequence[Tool | MarkedBlock], most: int = MOST) -> None:
    """Take away the marks before the last ones: the API would refuse the request."""
    for block in marked[: max(0, len(marked) - most)]:
        block.cache_control = None


def set_marks(tools: Sequence[object], system: Sequence[TextBlock], turns: Sequence[Turn]) -> None:
    """Mark the tools, the system prompt, the end, and the end of the request before this one: there the cache is."""
    own = [tool for tool in tools if isinstance(tool, Tool) and not tool.defer_loading]
    asked = [turn for turn in turns if turn.role == "user"]
    ends = {id(turn): turn for turn in (*asked[-2:-1], *turns[-1:])}
    for block in (*own[-1:], *system[-1:], *(_last(turn) for turn in ends.values())):
        if block is not None:
            block.cache_control = MARK


def _last(turn: Turn) -> MarkedBlock | None:
    return next((block for block in reversed(turn.content) if isinstance(block, _MARKABLE)), None)
