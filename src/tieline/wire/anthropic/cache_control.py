"""Cache marks: those the client set, or the ones an experienced client would have set.

The API caches the prompt up to each mark, and looks for something to reuse only at the marks; it takes at most four.

A client's mark is part of the text of its block. The gateway's own marks move with every request while the text is
cached, so they are inserted into the text: at the end of a block, where `cache_control` stands in every shape.
"""

from collections.abc import Sequence

from tieline.wire.anthropic.fragments import Fragment
from tieline.wire.anthropic.schema import DocumentBlock, ImageBlock, TextBlock, Tool, ToolResultOut, ToolUseBlock
from tieline.wire.shared.json import encode

MOST = 4
MARK = b'"cache_control":{"type":"ephemeral"}'

MARKABLE = frozenset({TextBlock, ImageBlock, DocumentBlock, ToolUseBlock, ToolResultOut})


def place(blocks: Sequence[object], behind: int) -> int:
    """Return where the last block that can carry a mark takes it, counted from the end of the text; 0 if none can.

    The text is that of these blocks with commas between them, and `behind` more characters after them.
    """
    for block in reversed(blocks):
        if type(block) in MARKABLE or (type(block) is Tool and not block.defer_loading):
            return behind + 1
        behind += len(encode(block)) + 1
    return 0


def marked(fragment: Fragment) -> bytes:
    """Return the text with a mark at its end, or as close to the end as one can be."""
    if not fragment.mark_at:
        return fragment.text
    at = len(fragment.text) - fragment.mark_at
    return b"%b,%b%b" % (fragment.text[:at], MARK, fragment.text[at:])


def ends(roles: Sequence[str]) -> list[int]:
    """Return the turns to mark: the last, and the end of the request before this one, where the cache is."""
    last = len(roles) - 1
    if not last:
        return [0]
    users = 0
    for at in range(last, -1, -1):
        users += roles[at] == "user"
        if users == 2:
            return [last, at]
    return [last]
