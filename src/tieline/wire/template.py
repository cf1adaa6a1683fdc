"""A short cut for streams whose events differ only in their text.

Most upstreams repeat everything around the text of a delta byte for byte. Once that *frame* is known, a run of blocks
that have it is read by decoding one list of strings in place of many events. A frame is taken up only after it was
tried: with another string in the place of the text, the block has to mean the same with that other string.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import islice

import msgspec

from tieline.wire.json import encode

TRIAL = "\x00"
"""The string that is put in the place of the text when a frame is tried."""

_ATTEMPTS = 6

_decode_texts = msgspec.json.Decoder(list[str]).decode


class Template:
    """The frame around the text of the deltas of one part; `key` is that part's, None while no frame is known."""

    __slots__ = ("_after", "_attempts", "_before", "key")

    def __init__(self) -> None:
        self.key: Hashable | None = None
        self._before = self._after = b""
        self._attempts = _ATTEMPTS

    def run(self, blocks: Sequence[bytes], start: int) -> list[str]:
        """The texts of the blocks from `start` on that have the frame, up to the first that has not."""
        before, after = self._before, self._after
        begin, end = len(before), -len(after)
        bodies = []
        for block in islice(blocks, start, None):
            if not block.startswith(before) or not block.endswith(after):
                break
            body = block[begin:end]
            if body[-1:] == b"\\" or (not body and len(block) < begin - end):
                break  # the quote after it may be escaped, or stand for both quotes
            bodies.append(body)
        try:
            texts = _decode_texts(b'["%b"]' % b'","'.join(bodies)) if bodies else []
        except ValueError:
            return []
        # A quote inside a body would make more texts of it, and nothing can make fewer.
        return texts if len(texts) == len(bodies) else []

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
                self._before, self._after = before + b'"', b'"' + after
        except ValueError:  # half an emoji in the block, or a frame that is none
            return

    def forget(self, key: Hashable) -> None:
        """The part has ended."""
        if self.key == key:
            self.key = None
            self._attempts = _ATTEMPTS
