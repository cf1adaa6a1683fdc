"""What of a conversation is remembered to know it again, and whether a request goes on where a session stands.

A client sends the whole history each time, as it shows it, and not as it was said: thoughts are dropped or kept,
activities stand there as text, reminders of the client come and go, results of tools are shortened. So only the
verbatim words count: what the user said, part by part, and what the agent said, without regard to white space and to
what stands in between. System messages are not compared: they hold the time of day. They tell, with the tools, whether
a request is one of those that clients make beside a conversation (for a title, say): such a one must not be appended.

Words are kept as digests. Of the agent's, the length is kept too and, for as long as the gateway runs, the beginning:
by them the words are found among other text. Words that were said before a restart are found by a checksum of it.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tieline.model.content import File, Image, Message, Part, Text, ToolResult
from tieline.model.request import Request

HEAD = 24
"""How many characters of the beginning are kept."""
TRIES = 64
"""How often a beginning is looked for in a text."""
FARTHEST = 1 << 16
"""How many characters further on words are looked for by their checksum, which is slow."""
SYSTEM_HEAD = 200
"""How much of the system prompt tells what kind of request it is; further on stand the date and the folder."""

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class Piece(NamedTuple):
    """Words of the agent, without white space."""

    length: int
    mark: int
    """The checksum of the beginning."""
    digest: bytes
    head: str = ""
    """The beginning; it is not known of words that were said before a restart."""

    @classmethod
    def of(cls, text: str) -> "Piece":
        squeezed = squeeze(text)
        head = squeezed[:HEAD]
        return cls(len(squeezed), zlib.crc32(_wide(head)), _digest(squeezed), head)


Pieces = tuple[Piece, ...]
Item = bytes | Pieces
"""What the user said, or what the agent did between two things the user said."""


class Past(NamedTuple):
    """What a session has seen; if it is torn, the client may have seen less of the end."""

    items: tuple[Item, ...] = ()
    is_torn: bool = False


class Kind(NamedTuple):
    """What tells one conversation's requests from those made beside it: how the system messages begin, and tools."""

    system: frozenset[bytes]
    has_tools: bool

    def goes_with(self, other: "Kind") -> bool:
        """Whether a request of this kind may go on with a conversation of the other.

        One beginning in common is enough: some clients put a line of their own in front that is never the same.
        """
        is_alike = not self.system.isdisjoint(other.system) or self.system == other.system
        return is_alike and (self.has_tools or not other.has_tools)


class Reading(NamedTuple):
    """A request, as far as it tells which conversation it is of."""

    items: tuple[bytes | str, ...]
    """Digests of what the user said, and the words of the agent without white space."""
    has_tail: bool
    """Whether the user says something after the agent's last words."""
    kind: Kind
    past: Past
    """What a session that is told all of it has seen."""


class Place(NamedTuple):
    """Where a conversation stands: a hash of all that the user said, and whether the agent has said anything since."""

    said: int
    is_answered: bool


def place_of(past: Past) -> Place:
    """Where a session stands. A request can go on with it only if this is one of the places it comes by."""
    said = 0
    for item in past.items:
        if isinstance(item, bytes):
            said = hash((said, item))
    is_answered = bool(past.items) and isinstance(past.items[-1], tuple) and bool(past.items[-1])
    return Place(said, is_answered and not past.is_torn)


def places_in(reading: Reading) -> list[Place]:
    """The places that a request comes by, one after the other."""
    said = 0
    places = [Place(said, is_answered=False)]
    for item in reading.items:
        if isinstance(item, bytes):
            said = hash((said, item))
        places.append(Place(said, isinstance(item, str)))
    return places


def read(request: Request) -> Reading:
    """What a request tells of its conversation."""
    items: list[bytes | str] = []
    seen: list[Item] = []
    for role, parts in _runs(request.messages):
        if role == "user":
            said = [mark for part in parts if (mark := _mark(part)) is not None]
            items += said
            seen += said
        elif role == "assistant":
            texts = [text for part in parts if isinstance(part, Text) and (text := squeeze(part.text))]
            pieces = tuple(Piece.of(text) for text in texts)
            if seen and isinstance(seen[-1], tuple) and isinstance(items[-1], str):
                seen[-1] = (*seen[-1], *pieces)
                items[-1] += "".join(texts)
            else:
                seen.append(pieces)
                items.append("".join(texts))
    return Reading(tuple(items), bool(tail_of(request.messages)), _kind(request), Past(tuple(seen)))


def known(past: Past, reading: Reading) -> int | None:
    """How much of what the user says a session has heard, if the request goes on with something new; else None."""
    if not past.items or not reading.has_tail:
        return None
    rest = list(reversed(reading.items))
    for place, seen in enumerate(past.items):
        is_torn = past.is_torn and place == len(past.items) - 1
        said = rest[-1] if rest else b""
        if isinstance(seen, bytes):
            if said != seen:
                return None
            rest.pop()
        elif isinstance(said, str):
            if not _holds(said, seen, is_torn=is_torn):
                return None
            rest.pop()
        elif seen and not is_torn:
            return None
    return _new(rest, reading, past)


def _new(rest: Sequence[bytes | str], reading: Reading, past: Past) -> int | None:
    heard = sum(isinstance(item, bytes) for item in past.items)
    if not rest:
        # Nothing but results of tools; they follow the agent's words, or the same words begin another conversation.
        return heard if isinstance(reading.items[-1], str) else None
    return heard if all(isinstance(item, bytes) for item in rest) else None


def after(past: Past, said: Iterable[str], *, is_torn: bool) -> Past:
    """What a session has seen after it said these texts too."""
    pieces = tuple(Piece.of(text) for text in said if text.strip())
    if past.items and isinstance(past.items[-1], tuple):
        return Past((*past.items[:-1], (*past.items[-1], *pieces)), is_torn)
    return Past((*past.items, pieces), is_torn)


def tail_of(messages: Sequence[Message], heard: int = 0) -> list[Part]:
    """What the user says after the agent's last words, without the first things that were heard already."""
    tail: list[Part] = []
    said = 0
    for message in messages:
        if message.role == "assistant":
            tail.clear()
        elif message.role == "user":
            for part in message.parts:
                said += _mark(part) is not None
                if said > heard or (said == heard and _mark(part) is None):
                    tail.append(part)
    return [part for part in tail if not isinstance(part, Text) or part.text.strip()]


def spoken_in(messages: Sequence[Message]) -> str:
    """The user's newest words, without what a client put beside them."""
    texts = [_words(part.text).strip() for part in tail_of(messages) if isinstance(part, Text)]
    return "\n".join(text for text in texts if text)


def squeeze(text: str) -> str:
    """The text without white space."""
    return "".join(text.split())


def _words(text: str) -> str:
    """The text without what a client put beside it."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[Part]]]:
    for message in messages:
        if message.role != "system":
            yield message.role, message.parts


def _mark(part: Part) -> bytes | None:
    """The digest of something the user said; None for what is not compared."""
    match part:
        case Text():
            text = squeeze(_words(part.text))
            return _digest(text) if text else None
        case Image() | File():
            return _digest(part.data or part.url or "")
        case ToolResult() | _:
            return None


def _kind(request: Request) -> Kind:
    heads = (
        squeeze(part.text[: 2 * SYSTEM_HEAD])[:SYSTEM_HEAD]
        for message in request.messages
        if message.role == "system"
        for part in message.parts
        if isinstance(part, Text)
    )
    return Kind(frozenset(_digest(head) for head in heads if head), bool(request.tools))


def _holds(text: str, pieces: Pieces, *, is_torn: bool) -> bool:
    """Whether these words stand in the text in this order; of torn ones only the beginning has to."""
    at = 0
    for piece in pieces:
        found = _find(text, piece, at)
        if found < 0:
            return is_torn and _begins(text[at:], piece)
        at = found + piece.length
    return True


def _begins(rest: str, piece: Piece) -> bool:
    """Whether a text is the beginning of these words, as far as can be told, or begins with their beginning."""
    if not rest:
        return True
    if piece.head:
        return piece.head.startswith(rest[:HEAD]) or rest.startswith(piece.head)
    size = min(piece.length, HEAD)
    return len(rest) >= size and zlib.crc32(_wide(rest[:size])) == piece.mark


def _find(text: str, piece: Piece, begin: int) -> int:
    if not piece.head:
        return _seek(text, piece, begin)
    at = begin - 1
    for _ in range(TRIES):
        at = text.find(piece.head, at + 1)
        if at < 0 or _digest(text[at : at + piece.length]) == piece.digest:
            return at
    return -1


def _seek(text: str, piece: Piece, begin: int) -> int:
    """The same for words whose beginning is not known."""
    last = min(len(text) - piece.length, begin + FARTHEST)
    wide = _wide(text[begin : last + HEAD])
    size = 4 * min(piece.length, HEAD)
    for at in range(begin, last + 1):
        place = 4 * (at - begin)
        is_likely = zlib.crc32(wide[place : place + size]) == piece.mark
        if is_likely and _digest(text[at : at + piece.length]) == piece.digest:
            return at
    return -1


def _wide(text: str) -> bytes:
    """Four bytes for each character."""
    return text.encode("utf-32-le", "surrogatepass")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
