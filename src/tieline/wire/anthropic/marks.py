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
    for tool in reversed(tools):
        if type(tool) is Tool and not tool.defer_loading:
            tool.cache_control = MARK
            break
    if system:
        system[-1].cache_control = MARK
    _mark_end(turns[-1])
    asked = 0
    for turn in reversed(turns):
        asked += turn.role == "user"
        if asked == 2:
            _mark_end(turn)
            break


def _mark_end(turn: Turn) -> None:
    for block in reversed(turn.content):
        if isinstance(block, _MARKABLE):
            block.cache_control = MARK
            break
