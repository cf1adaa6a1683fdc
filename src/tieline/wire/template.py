"""A short cut for streams whose events differ only in their text.

Most upstreams repeat everything around the text of a delta byte for byte. Once that *frame* is known, a run of blocks
that have it is read by decoding one list of strings in place of many events. A frame is taken up only after it was
tried: with another string in the place of the text, the block has to mean the same with that other string.
Writing knows its own frames, and goes the same way back.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby, repeat, takewhile
from operator import attrgetter

import msgspec

from tieline.model.events import Event, PartDelta
from tieline.wire.json import encode

TRIAL = "\x00"
"""The string that is put in the place of the text when a frame is tried."""

Frame = tuple[bytes, bytes]
"""What stands before and after the text of a delta: its quotes belong to that, and the blank line at the end."""

_ATTEMPTS = 6

_BORDER = b'",\n"'
"""Between two texts. No string has a bare line end in it: a backslash before the border cannot hide its quote."""

_text_of = attrgetter("text")
_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode


class Template:
    """The frame around the text of the deltas of one part; `key` is that part's, None while no frame is known."""

    __slots__ = ("_after", "_attempts", "_before", "_size", "frame", "key")

    def __init__(self) -> None:
        self.key: Hashable | None = None
        self.frame: Frame | None = None
        self._before = self._after = b""
        self._size = 0
        self._attempts = _ATTEMPTS

    def read(self, text: bytes, at: int) -> tuple[list[str], int]:
        """The texts of the blocks from `at` on that have the frame, up to the first that has not; and where that is."""
        if not text.startswith(self._before, at):
            return [], at
        run = text[at:].split(self._after)
        end = len(text) - len(run.pop())
        texts = self._together(run, end - at)
        if texts is None:
            run = [*takewhile(self._begins, run)]
            texts = self._together(run, self._size_of(run))
            if texts is None:
                texts = self._one_by_one(run)
            end = at + self._size_of(run[: len(texts)])
        return texts, end

    def run(self, blocks: Sequence[bytes], start: int) -> list[str]:
        """The texts of the blocks from `start` on that have the frame, up to the first that has not."""
        if start < len(blocks) - 1:
            return self.read(b"\n\n".join((*blocks[start:], b"")), 0)[0]
        text = self.only(blocks[start] + b"\n\n")
        return [] if text is None else [text]

    def only(self, block: bytes) -> str | None:
        """The text of a block with its blank line; None if it has not the frame. A stream that trickles comes so."""
        body = block.removeprefix(self._before).removesuffix(self._after)
        if len(block) - len(body) != self._size:
            return None
        try:
            return _decode_text(b'"' + body + b'"')
        except ValueError:
            return None

    def _together(self, run: Sequence[bytes], size: int) -> list[str] | None:
        """The texts of all these beginnings of blocks, whose blocks have this size; None if one has not the frame."""
        joined = _BORDER.join(map(bytes.removeprefix, run, repeat(self._before)))
        if len(joined) != size - len(run) * self._size + (len(run) - 1) * len(_BORDER):
            return None
        try:
            texts = _decode_texts(b'["%b"]' % joined)
        except ValueError:
            return None
        # A quote inside a body would make more texts of it, and nothing can make fewer.
        return texts if len(texts) == len(run) else None

    def _one_by_one(self, run: Iterable[bytes]) -> list[str]:
        texts: list[str] = []
        for block in run:
            text = self.only(block + self._after)
            if text is None:
                break
            texts.append(text)
        return texts

    def _begins(self, block: bytes) -> bool:
        return block.startswith(self._before)

    def _size_of(self, run: Sequence[bytes]) -> int:
        return sum(map(len, run)) + len(run) * len(self._after)

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
                self.take_up(key, (before + b'"', b'"' + after + b"\n\n"))
        except ValueError:  # half an emoji in the block, or a frame that is none
            return

    def take_up(self, key: Hashable, frame: Frame) -> None:
        """Read the deltas of a part by a frame that was learned, be it in another stream."""
        self.key, self.frame = key, frame
        self._before, self._after = frame
        self._size = len(self._before) + len(self._after)

    def forget(self, key: Hashable) -> None:
        """The part has ended."""
        if self.key == key:
            self.key = None
            self._attempts = _ATTEMPTS


def frames(texts: list[str], before: bytes, after: bytes) -> tuple[bytes, bytes, bytes]:
    """Every text as a JSON string between the same bytes, in three pieces to be joined: the way back."""
    spelled, border = encode(texts)[2:-2], b'"' + after + before + b'"'
    if spelled.find(b'\\","') < 0:
        spelled = spelled.replace(b'","', border)
    else:  # an escaped quote there may look like the border between two texts
        spelled = border.join([encode(text)[1:-1] for text in texts])
    return before + b'"', spelled, b'"' + after


def write_runs(
    batch: Sequence[Event], write: Callable[[Event], bytes], write_run: Callable[[list[str]], Iterable[bytes]]
) -> bytes:
    """The bytes of a batch: runs of deltas are written at once, everything else one by one."""
    if len(batch) == 1:
        return write(batch[0])
    written: list[bytes] = []
    for kind, run in groupby(batch, type):
        if kind is PartDelta:
            written += write_run([*map(_text_of, run)])
        else:
            written += map(write, run)
    return b"".join(written)
