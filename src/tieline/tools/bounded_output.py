"""Keeps the beginning and the end of a stream of unknown length."""


class BoundedOutput:
    """The first `head` bytes and the last `tail` bytes of a stream, and its total length."""

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._room = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Append data to the stream."""
        self.total += len(data)
        begun = data[: self._room]
        self._head += begun
        self._room -= len(begun)
        self._tail += data[len(begun) :][-self._tail_limit :] if self._tail_limit else b""
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def omitted(self) -> int:
        """The number of bytes in the middle that were not kept."""
        return self.total - len(self._head) - min(len(self._tail), self._tail_limit)

    @property
    def head(self) -> bytes:
        """The first bytes of the stream."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The last bytes of the stream that are not already in `head`."""
        return bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""

    def text(self) -> str:
        """Return the kept bytes as text.

        If bytes are omitted, a line in their place says how many. The text is cut at line ends if possible.
        """
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = _up_to_line(self.head), _from_line(self.tail)
        lost = self.total - len(head) - len(tail)
        begun = head.decode("utf-8", "replace").removesuffix("\n")
        return f"{begun}\n… {lost} bytes omitted …\n{tail.decode('utf-8', 'replace')}"


def _up_to_line(head: bytes) -> bytes:
    end = head.rfind(b"\n") + 1
    return head[:end] if end > len(head) // 2 else head


def _from_line(tail: bytes) -> bytes:
    start = tail.find(b"\n") + 1
    return tail[start:] if 0 < start < len(tail) // 2 else tail
