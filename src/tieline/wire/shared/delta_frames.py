"""A short cut for streams whose events differ only in their text.

Most upstreams repeat everything around the text of a delta byte for byte. Once that *frame* is known, a run of blocks
that have it is read as one delta: their texts, with a border between two, are one string to decode. A frame is taken up
only after it was tried: with another string in the place of the text, the block has to mean the same with that other
string. Writing knows its own frames, and goes the same way back: the pieces of a delta are spelled already, so each
border becomes what stands between two texts there.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import groupby, repeat, takewhile
from operator import attrgetter

import msgspec

from tieline.model.assemble import PartsWriter
from tieline.model.events import BORDER, Event, PartDelta
from tieline.wire.shared.json import encode

TRIAL = "\x00"
"""The string that is put in the place of the text when a frame is tried."""

Frame = tuple[bytes, bytes]
"""What stands before and after the text of a delta: its quotes belong to that, and the blank line at the end."""

_ATTEMPTS = 6

_FEW = 8
"""Batches of fewer events are not searched for runs."""

_LF = ord("\n")
_BORDER_TEXT = BORDER.decode()
_text_of = attrgetter("text")
_pieces_of = attrgetter("pieces")
_decode_text = msgspec.json.Decoder(str).decode


class Template:
    """The frame around the text of the deltas of one part; `key` is that part's, None while no frame is known."""

    __slots__ = ("_after", "_attempts", "_before", "_size", "frame", "key")

    def __init__(self) -> None:
        self.key: Hashable | None = None
        self.frame: Frame | None = None
        self._before = self._after = b""
        self._size = 0
        self._attempts = _ATTEMPTS

    def unframed(self, text: bytes, parts: PartsWriter) -> Iterator[bytes]:
        """The blocks that have not the frame, without their blank lines; the texts of all others go to their part.

        Every block is followed by its blank line; only the last may lack it.
        """
        at, size = 0, len(text)
        while at < size:
            if self.key is not None and text.startswith(self._before, at):
                texts, pieces, at = self.read(text, at)
                if texts:
                    parts.add_all(self.key, texts, pieces)
                    continue
            end = text.find(b"\n\n", at)
            if end < 0:
                yield text[at:]
                return
            yield text[at:end]
            at = end + 2

    def read(self, text: bytes, at: int) -> tuple[list[str], bytes, int]:
        """The texts of the blocks from `at` on that have the frame, and where the first is that has not.

        Many are read as one text, with the pieces it came in.
        """
        run = text[at:].split(self._after)
        end = len(text) - len(run.pop())
        pieces = self._unframed(run, end - at)
        if pieces is None:
            run = [*takewhile(self._begins, run)]
            end = at + sum(map(len, run)) + len(run) * len(self._after)
            pieces = self._unframed(run, end - at)
        whole = None if pieces is None else _whole(pieces, len(run) - 1)
        if pieces is None or whole is None:
            return self._one_by_one(text, at)
        return [whole], pieces if len(run) > 1 else b"", end

    def _unframed(self, run: Sequence[bytes], size: int) -> bytes | None:
        """The bodies of these blocks, which have this size together; None if there are none, or one has not the frame.

        The blocks lack their ends already.
        """
        pieces = BORDER.join(map(bytes.removeprefix, run, repeat(self._before)))
        return pieces if run and len(pieces) == size - len(run) * self._size + len(run) - 1 else None

    def _begins(self, block: bytes) -> bool:
        return block.startswith(self._before)

    def only(self, block: bytes) -> str | None:
        """The text of a block with its blank line; None if it has not the frame. A stream that trickles comes so."""
        body = block.removeprefix(self._before).removesuffix(self._after)
        if len(block) - len(body) != self._size or _LF in body:  # with a line end in it, it is more than one block
            return None
        try:
            return _decode_text(b'"' + body + b'"')
        except ValueError:
            return None

    def _one_by_one(self, text: bytes, at: int) -> tuple[list[str], bytes, int]:
        texts: list[str] = []
        while text.startswith(self._before, at):
            after = text.find(self._after, at + len(self._before))
            end = after + len(self._after)
            body = self.only(text[at:end]) if after >= 0 else None
            if body is None:
                break
            texts.append(body)
            at = end
        return texts, b"", at

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


def _whole(pieces: bytes, borders: int) -> str | None:
    """The text that came in these pieces; None if one is not a string, is empty, or has the character of a border."""
    try:
        # A border behind half an escape makes it wrong: no piece can be completed by the next.
        joined = _decode_text(b'"%b"' % pieces)
    except ValueError:
        return None
    whole = joined.replace(_BORDER_TEXT, "")
    if len(joined) - len(whole) != borders or pieces.strip(BORDER) != pieces or pieces.find(BORDER + BORDER) >= 0:
        return None
    return whole


def frames(texts: list[str], before: bytes, after: bytes) -> tuple[bytes, bytes, bytes]:
    """Every text as a JSON string between the same bytes, in three pieces to be joined."""
    spelled, border = encode(texts)[2:-2], b'"' + after + before + b'"'
    if spelled.find(b'\\","') < 0:
        spelled = spelled.replace(b'","', border)
    else:  # an escaped quote there may look like the border between two texts
        spelled = border.join([encode(text)[1:-1] for text in texts])
    return before + b'"', spelled, b'"' + after


def in_frames(pieces: bytes, before: bytes, after: bytes) -> bytes:
    """The pieces of a delta, each between the same bytes."""
    return b'%b"%b"%b' % (before, pieces.replace(BORDER, b'"' + after + before + b'"'), after)


def write_runs(
    batch: Sequence[Event], write: Callable[[Event], bytes], write_run: Callable[[list[str]], Iterable[bytes]]
) -> bytes:
    """The bytes of a batch: runs of deltas are written at once, everything else one by one."""
    if len(batch) < _FEW:
        return write(batch[0]) if len(batch) == 1 else b"".join(map(write, batch))
    written: list[bytes] = []
    for kind, events in groupby(batch, type):
        run = [*events]
        if kind is PartDelta and not any(map(_pieces_of, run)):
            written += write_run([*map(_text_of, run)])
        else:
            written += map(write, run)
    return b"".join(written)
