"""Parse server-sent events from reads of any size.

Lines end only with LF, CRLF or CR. Other line separators, such as U+2028 inside JSON, are text. The module works on
bytes, so a character that is split between two reads is complete before it is decoded. A CR at the end of a read ends
the line immediately. If the next read starts with LF, this LF belongs to the same line end.
"""

LIMIT = 64 * 1024 * 1024
STRAY_LIMIT = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_CR, _LF = b"\r\n"
"""CR and LF as integers, because `int in bytes` is faster than `bytes in bytes`."""
_FIELDS = (b"id", b"retry", b"event", b"data")


SseEvent = tuple[bytes, bytes]
"""An event: its name (empty if it has none) and its data lines, joined with line feeds."""


class SseOverflow(ValueError):
    """An event exceeds the size limit."""


class SseReader:
    """Splits a stream into blocks, which are separated by blank lines. The method `event` parses a block.

    If an incomplete block exceeds `limit` bytes, `feed` and `whole` raise SseOverflow.
    """

    stray = b""
    """Lines in parsed blocks that are not valid SSE, up to STRAY_LIMIT bytes. Some upstreams write errors as JSON."""
    _held_size = 0
    _begun = False
    _after_cr = False

    def __init__(self, limit: int = LIMIT) -> None:
        self.held: list[bytes] = []
        """The chunks of a block that is still incomplete."""
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """Return the blocks that `data` completes, without the blank lines between them."""
        blocks = self.whole(data).split(b"\n\n")
        blocks.pop()
        return blocks

    def whole(self, data: bytes) -> bytes:
        """Return the blocks that `data` completes as one byte string, each followed by a blank line.

        All line endings in the result are LF.
        """
        if self.held or not self._begun or self._after_cr or _CR in data:
            data = self._prepared(data)
        if data.endswith(b"\n\n"):
            return data
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            self._hold(data)
            self._check()
            return b""
        self._hold(data[end:])
        return data[:end]

    def close(self) -> list[bytes]:
        """End the stream. Return the remaining text as the last block, which may be empty."""
        return [self._take()]

    def event(self, block: bytes) -> SseEvent | None:
        """Parse a block and return its event, or None if it contains no data."""
        head, _, text = block.partition(b"data: ")
        # The common case: an optional line with a name, and one line of data.
        is_name = not head or (head.startswith(b"event: ") and head.find(b"\n") == len(head) - 1)
        if is_name and text and _LF not in text:
            return head[7:-1], text
        return self._read_lines(block)

    def _prepared(self, data: bytes) -> bytes:
        """Return the held chunks joined with `data`, with LF line endings.

        If `data` does not complete the held block, hold it as well and return nothing.
        """
        if not self._begun:
            data = self._without_bom(data)
        if self._after_cr or _CR in data:
            data = self._line_feeds(data)
        if self.held:
            if b"\n\n" not in data and not (data.startswith(b"\n") and self.held[-1].endswith(b"\n")):
                self._hold(data)
                return b""
            data = self._take() + data
        return data

    def _hold(self, data: bytes) -> None:
        if data:
            self.held.append(data)
            self._held_size += len(data)

    def _take(self) -> bytes:
        data = b"".join(self.held)
        self.held.clear()
        self._held_size = 0
        return data

    def _check(self) -> None:
        if self._held_size > self._limit:
            raise SseOverflow(f"an event exceeds the limit of {self._limit} bytes")

    def _without_bom(self, data: bytes) -> bytes:
        """Return the data without a byte order mark.

        If the data may be an incomplete byte order mark, hold it and return nothing.
        """
        if self.held:
            data = self._take() + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._hold(data)
            return b""
        self._begun = True
        return data.removeprefix(_BOM)

    def _line_feeds(self, data: bytes) -> bytes:
        """Return the data with all line endings converted to LF."""
        if not data:
            return data
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read_lines(self, block: bytes) -> SseEvent | None:
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                name = line[6:].removeprefix(b" ")
            elif line == b"data":
                data.append(b"")
            elif line and not line.startswith(b":") and line.partition(b":")[0] not in _FIELDS:
                self.stray = (self.stray + line + b"\n")[:STRAY_LIMIT]
        if not data:
            return None
        return name, data[0] if len(data) == 1 else b"\n".join(data)
