"""Conversations that were read before: a body that tells one again is read only where it goes on.

A client sends its whole history with every request. The next body begins with the bytes of the last one up to the end
of its last message, the `head`, and ends with what stood behind it, the `tail`: tools and options. Only what stands
between them is new.

Reading that alone is the same as reading everything. The head ends behind an object in the array of messages: whoever
has read it expects a comma or the end of the array, whatever follows. If what follows is a comma and the inside of an
array that is valid JSON and not empty, the same is expected again, and the tail means what it meant before. There is
no second array of messages in the tail: of a key that comes twice the last counts, and that is where the head ends.

Bodies are compared, not hashed; most that are others differ in the few bytes where a head ends.
"""

from typing import Generic, TypeVar

from msgspec import Raw

T = TypeVar("T")

WORTHWHILE = 4096
"""Bytes of a body from which on a second look at it may cost less than reading it."""
MAX_CONVERSATIONS = 64
"""Each costs a glance at every body that is new; more than these are rarely under way at once."""
MAX_BYTES = 16 << 20
"""About what all of them may take in memory."""
MAX_EACH = MAX_BYTES // 4
"""What one may take of it: nobody with a picture book drives all others out."""

_WEIGHT = 3
"""A body weighs its bytes, the text that was read of them, and about as much in objects when messages are short."""
LARGEST = MAX_EACH // _WEIGHT
"""Bytes of a body that can be remembered at all."""
_TIP = 64
_BEGINNING = 256
_BLANKS = b" \t\n\r"


class Told(Generic[T]):
    """A body that was read, and what was read of it."""

    __slots__ = ("_at", "_tip", "earlier", "head", "read", "tail", "weight")

    def __init__(self, body: bytes, end: int, read: T, earlier: "Told[T] | None") -> None:
        self.head = body[:end]
        self.tail = body[end:]
        self.read = read
        self.earlier = earlier
        """What this goes on from."""
        self.weight = _WEIGHT * len(body)
        self._tip = self.head[-_TIP:]
        self._at = end - len(self._tip)

    def is_told_in(self, body: bytes) -> bool:
        """Whether this body is the same but for what may stand between head and tail."""
        return (
            body.startswith(self._tip, self._at)
            and body.endswith(self.tail, len(self.head))
            and body.startswith(self.head)
        )

    def added_in(self, body: bytes) -> bytes:
        """What a body that tells this again has between head and tail."""
        return body[len(self.head) : len(body) - len(self.tail)]


class Memory(Generic[T]):
    """What was told, the least recently heard forgotten first."""

    def __init__(self) -> None:
        self._told: list[Told[T]] = []
        self.weight = 0

    def __len__(self) -> int:
        return len(self._told)

    def find(self, body: bytes) -> Told[T] | None:
        """What this body tells again, the latest heard of several."""
        for told in reversed(self._told):
            if told.is_told_in(body):
                if told is not self._told[-1]:
                    self._told.remove(told)
                    self._told.append(told)
                return told
        return None

    def keep(self, body: bytes, end: int, read: T, earlier: Told[T] | None = None) -> None:
        """Remember what was read of a body whose last message ends at `end`.

        What it went on from stays too, for one who goes back by a turn; what that went on from does not.
        """
        told = Told(body, end, read, earlier)
        if told.weight > MAX_EACH:
            return
        self._told.append(told)
        self.weight += told.weight
        if earlier is not None and earlier.earlier is not None:
            self._forget(earlier.earlier)
        while len(self._told) > MAX_CONVERSATIONS or self.weight > MAX_BYTES:
            self._forget(self._told[0])

    def _forget(self, told: Told[T]) -> None:
        self._told.remove(told)
        self.weight -= told.weight
        for later in self._told:
            if later.earlier is told:
                later.earlier = None


def end_of_last(body: bytes, array: Raw) -> int | None:
    """Where the last object of an array ends that was found in this body; None if there is any doubt.

    Only the bytes of the array are known. They stand in the body at least once: if their beginning stands there once
    and no more, they do too.
    """
    text = bytes(array)
    beginning = text[:_BEGINNING]
    start = body.find(beginning)
    if body.find(beginning, start + 1) != -1:
        return None
    inside = text[:-1].rstrip(_BLANKS)
    return start + len(inside) if inside.endswith(b"}") else None


def as_array(added: bytes) -> bytes | None:
    """The array of what was added behind the last element of another; None if it does not begin with a comma."""
    inside = added.lstrip(_BLANKS)
    return b"[" + inside[1:] + b"]" if inside.startswith(b",") else None
