"""The beginning and the end of a stream that may be long."""


class Captured:
    """What a stream said: the first bytes and the last bytes, and how many there were in all."""

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._room = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """More of it."""
        self.total += len(data)
        begun = data[: self._room]
        self._head += begun
        self._room -= len(begun)
        self._tail += data[len(begun) :][-self._tail_limit :] if self._tail_limit else b""
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def omitted(self) -> int:
        """How many bytes in the middle are lost."""
        return self.total - len(self._head) - min(len(self._tail), self._tail_limit)

    @property
    def head(self) -> bytes:
        """The beginning."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The end, without what is in the beginning already."""
        return bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""

    def text(self) -> str:
        """The whole as text, with a line that tells what was left out; lines and characters stay whole if they can."""
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = _up_to_line(self.head), _from_line(self.tail)
        lost = self.total - len(head) - len(tail)
        begun = head.decode("utf-8", "replace").removesuffix("\n")
        return f"{begun}\n… {lost} bytes left out …\n{tail.decode('utf-8', 'replace')}"


def _up_to_line(head: bytes) -> bytes:
    end = head.rfind(b"\n") + 1
    return head[:end] if end > len(head) // 2 else head


def _from_line(tail: bytes) -> bytes:
    start = tail.find(b"\n") + 1
    return tail[start:] if 0 < start < len(tail) // 2 else tail
