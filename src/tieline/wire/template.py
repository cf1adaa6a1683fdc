"""A short cut for streams whose events differ only in their text.

Most upstreams repeat everything around the text of a delta byte for byte. Once that *frame* is known, a run of blocks
that have it is read by decoding one list of strings in place of many events. A frame is taken up only after it was
tried: with another string in the place of the text, the block has to mean the same with that other string.
Writing knows its own frames, and goes the same way back.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import takewhile

import msgspec

from tieline.model.events import Event, PartDelta
from tieline.wire.json import encode

TRIAL = "\x00"
"""The string that is put in the place of the text when a frame is tried."""

_ATTEMPTS = 6

_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode


class Template:
    """The frame around the text of the deltas of one part; `key` is that part's, None while no frame is known."""

    __slots__ = ("_after", "_attempts", "_before", "_between", "_end", "key")

    def __init__(self) -> None:
        self.key: Hashable | None = None
        self._before = self._after = self._between = self._end = b""
        self._attempts = _ATTEMPTS

    def run(self, blocks: Sequence[bytes], start: int) -> list[str]:
        """The texts of the blocks from `start` on that have the frame, up to the first that has not."""
        block = blocks[start]
        if not block.startswith(self._before):
            return []
        if start == len(blocks) - 1:
            return self._single(block)
        text = b"\n\n".join((*blocks[start:], b""))[len(self._before) :]
        *bodies, last = text.split(self._between)
        body, is_complete, _ = last.partition(self._after)
        if is_complete:
            bodies.append(body)
        joined = b'","'.join(bodies)
        if b"\n" in joined or b'\\","' in joined or joined.endswith(b"\\"):
            bodies = list(takewhile(_is_plain, bodies))
            joined = b'","'.join(bodies)
        try:
            texts = _decode_texts(b'["%b"]' % joined) if bodies else []
        except ValueError:
            return []
        # A quote inside a body would make more texts of it, and nothing can make fewer.
        return texts if len(texts) == len(bodies) else []

    def _single(self, block: bytes) -> list[str]:
        """The text of one block, with its quotes: a stream that trickles comes block by block."""
        if not block.endswith(self._end):
            return []
        try:
            return [_decode_text(block[len(self._before) - 1 : len(block) - len(self._end) + 1])]
        except ValueError:
            return []

    def learn(self, key: Hashable, block: bytes, field: str, text: str, means_same: Callable[[bytes], bool]) -> None:
        """Take up the frame of a block that says nothing beside `text` in `field`; after a few attempts, no more.

        `means_same` says whether a block is the same event with TRIAL as its text.
        """
        if self._attempts == 0:
            return
        self._attempts -= 1
        try:
            spelled = encode(text)
            space = b" " if b'": ' in block else b""
            before, found, after = block.partition(b'"%b":%b%b' % (field.encode(), space, spelled))
            before += found.removesuffix(spelled)
            if means_same(before + encode(TRIAL) + after):
                self.key = key
                self._before, self._after = before + b'"', b'"' + after + b"\n\n"
                self._between = self._after + self._before
                self._end = b'"' + after
        except ValueError:  # half an emoji in the block, or a frame that is none
            return

    def forget(self, key: Hashable) -> None:
        """The part has ended."""
        if self.key == key:
            self.key = None
            self._attempts = _ATTEMPTS


def _is_plain(body: bytes) -> bool:
    """Whether this is text and nothing else: no end of a line, and no backslash that may escape the quote after it."""
    return b"\n" not in body and not body.endswith(b"\\")


def framed(texts: list[str], before: bytes, after: bytes) -> bytes:
    """Every text as a JSON string between the same bytes: the way back."""
    if len(texts) == 1:
        return before + encode(texts[0]) + after
    together = encode(texts)
    spelled = together[2:-2].split(b'","')
    if b'\\","' in together:  # an escaped quote there may look like the border between two texts
        spelled = [encode(text)[1:-1] for text in texts]
    before, after = before + b'"', b'"' + after
    return before + (after + before).join(spelled) + after


def write_runs(
    batch: Iterable[Event], write: Callable[[Event], bytes], write_run: Callable[[list[str]], bytes]
) -> bytes:
    """The bytes of a batch: runs of deltas are written at once, everything else one by one."""
    written: list[bytes] = []
    texts: list[str] = []
    for event in batch:
        if type(event) is PartDelta:
            texts.append(event.text)
            continue
        if texts:
            written.append(write_run(texts))
            texts = []
        written.append(write(event))
    if texts:
        written.append(write_run(texts))
    return b"".join(written)
