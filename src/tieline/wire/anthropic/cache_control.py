"""Cache marks: those the client set, or the ones an experienced client would have set.

The API caches the prompt up to each mark and looks only at the marks for something to reuse; four is the most it takes.

A client's mark is in the text of the block that carries it. One of ours moves on with every request, while the text
under it is remembered: it is put into the text, at the end of a block, where `cache_control` stands in every shape.
"""

from collections.abc import Sequence

from tieline.wire.anthropic.fragments import Piece
from tieline.wire.anthropic.schema import DocumentBlock, ImageBlock, TextBlock, Tool, ToolResultOut, ToolUseBlock
from tieline.wire.shared.json import encode

MOST = 4
MARK = b'"cache_control":{"type":"ephemeral"}'

MARKABLE = frozenset({TextBlock, ImageBlock, DocumentBlock, ToolUseBlock, ToolResultOut})


def place(blocks: Sequence[object], behind: int) -> int:
    """Where the last block that can carry a mark takes it, counted from the end of the text; 0 if there is none.

    The text is that of these blocks, with a comma between them, and as much `behind` them as that.
    """
    for block in reversed(blocks):
        if type(block) in MARKABLE or (type(block) is Tool and not block.defer_loading):
            return behind + 1
        behind += len(encode(block)) + 1
    return 0


def marked(piece: Piece) -> tuple[bytes, ...]:
    """The text with a mark at its end, or as near to it as one can be: in two, for a join with commas."""
    if not piece.mark_at:
        return (piece.text,)
    at = len(piece.text) - piece.mark_at
    return piece.text[:at], MARK + piece.text[at:]


def always_marked(piece: Piece) -> tuple[bytes, ...]:
    """The same for what keeps its mark from request to request: tools are long, and not cut in two each time."""
    if piece.marked is None:
        piece.marked = marked(piece)
    return piece.marked


def ends(roles: Sequence[str]) -> list[int]:
    """The turns to mark: the last, and the end of the request before this one, where the cache is."""
    last = len(roles) - 1
    if not last:
        return [0]
    asked = 0
    for at in range(last, -1, -1):
        asked += roles[at] == "user"
        if asked == 2:
            return [last, at]
    return [last]
