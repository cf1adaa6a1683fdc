"""Read deltas that differ only in their text without decoding each event.

Most upstreams repeat everything around the text of a delta byte for byte. Those bytes are the *frame* of the delta.
Once a reader knows it, the text of the following deltas is what stands between its two halves. A frame is used only if
it was verified: with another string in place of the text, the event must mean the same except for that string.
"""

from collections.abc import Callable, Hashable

import msgspec

from tieline.wire.shared.json import encode

TRIAL = "\x00"
"""Replaces the text of a delta when its frame is verified."""

_ATTEMPTS = 6
"""How often a frame is looked for in one part, so that an upstream without frames costs little."""
_LF = ord("\n")
_decode_text = msgspec.json.Decoder(str).decode


class DeltaFrame:
    """The frame of the open part's deltas; `key` is the key of that part, or None while no frame is known."""

    __slots__ = ("_after", "_attempts", "_before", "_size", "key")

    def __init__(self) -> None:
        self.key: Hashable | None = None
        self._before = self._after = b""
        self._size = 0
        self._attempts = _ATTEMPTS

    def text_in(self, block: bytes) -> str | None:
        """Return the text of a delta, or None if this block does not have the frame. The blank line is part of it."""
        body = block.removeprefix(self._before).removesuffix(self._after)
        if len(block) - len(body) != self._size or _LF in body:
            return None
        try:
            return _decode_text(b'"%b"' % body)
        except ValueError:
            return None

    def learn(self, key: Hashable, block: bytes, field: str, text: str, means_same: Callable[[bytes], bool]) -> None:
        """Take the frame from a block that says nothing but `text` in `field`; give up after a few attempts.

        `means_same` tells whether a block is the same event with TRIAL as its text.
        """
        if self._attempts == 0:
            return
        self._attempts -= 1
        try:
            literal = encode(text)
            space = b" " if b'": ' in block else b""
            before, found, after = block.partition(b'"%b":%b%b' % (field.encode(), space, literal))
            before += found.removesuffix(literal)
            if means_same(before + encode(TRIAL) + after):
                self.key = key
                self._before, self._after = before + b'"', b'"' + after + b"\n\n"
                self._size = len(self._before) + len(self._after)
        except ValueError:  # a lone surrogate, or the text does not occur in this spelling
            return

    def forget(self, key: Hashable) -> None:
        """Drop the frame when its part has ended."""
        if self.key == key:
            self.key = None
        self._attempts = _ATTEMPTS
