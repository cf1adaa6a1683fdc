"""Fingerprints of conversations, to find the session that a request continues.

A client sends the whole history with each request, but not as it was said: thinking is dropped or kept, activities
appear as text, reminders of the client come and go, tool results are shortened. So only two things are compared, both
without white space: the parts that the user wrote, which must be equal, and the texts of the agent, which must occur in
order. System messages are not compared, because they contain the time of day. Together with the tools they tell whether
a request belongs to the conversation or is one that clients make besides it, for a title for example.

Texts are kept as digests. For texts of the agent the length is kept too and, until a restart, the beginning; with them
a text is found inside a longer one. After a restart it is found by a checksum of the beginning.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tieline.model.content import File, Image, Message, Part, Text, ToolResult
from tieline.model.request import Request

HEAD = 24
"""How many characters of the beginning of a text are kept."""
TRIES = 64
"""How many occurrences of a beginning are checked."""
FARTHEST = 1 << 16
"""How many characters are searched by checksum, which is slow."""
SYSTEM_HEAD = 200
"""How many characters of a system message are compared. Later ones contain the date and the folder."""

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class TextDigest(NamedTuple):
    """The digest of a text of the agent, without white space."""

    length: int
    checksum: int
    """The CRC-32 of the beginning."""
    digest: bytes
    head: str = ""
    """The beginning. It is not known after a restart."""

    @classmethod
    def of(cls, text: str) -> "TextDigest":
        squeezed = squeeze(text)
        head = squeezed[:HEAD]
        return cls(len(squeezed), zlib.crc32(_wide(head)), _digest(squeezed), head)


TextDigests = tuple[TextDigest, ...]
HistoryItem = bytes | TextDigests
"""The digest of one part of the user, or those of the agent's texts between two parts."""


class SeenHistory(NamedTuple):
    """What a session has seen. If it is torn, the client may have seen less of the end."""

    items: tuple[HistoryItem, ...] = ()
    is_torn: bool = False


class RequestKind(NamedTuple):
    """Distinguishes requests of a conversation from those made besides it: system messages and tools."""

    system: frozenset[bytes]
    has_tools: bool

    def may_continue(self, other: "RequestKind") -> bool:
        """Return whether a request of this kind may continue a conversation of the other.

        One common system message is enough: some clients put a line in front that changes with each request.
        """
        is_alike = not self.system.isdisjoint(other.system) or self.system == other.system
        return is_alike and (self.has_tools or not other.has_tools)


class RequestFingerprint(NamedTuple):
    """The parts of a request that identify its conversation."""

    items: tuple[bytes | str, ...]
    """Digests of the user's parts, and texts of the agent without white space."""
    has_tail: bool
    """Whether the last message is one of the user."""
    kind: RequestKind
    history: SeenHistory
    """What a session has seen after it received the whole request."""


class HistoryPosition(NamedTuple):
    """A point in a conversation: a hash of the user's parts so far, and whether the agent has answered."""

    user_hash: int
    is_answered: bool


def position_of(history: SeenHistory) -> HistoryPosition:
    """Return the position of a session. A request can continue it only if the request passes this position."""
    user_hash = 0
    for item in history.items:
        if isinstance(item, bytes):
            user_hash = hash((user_hash, item))
    is_answered = bool(history.items) and isinstance(history.items[-1], tuple) and bool(history.items[-1])
    return HistoryPosition(user_hash, is_answered and not history.is_torn)


def positions_in(fingerprint: RequestFingerprint) -> list[HistoryPosition]:
    """Return the positions that a request passes, in order."""
    user_hash = 0
    positions = [HistoryPosition(user_hash, is_answered=False)]
    for item in fingerprint.items:
        if isinstance(item, bytes):
            user_hash = hash((user_hash, item))
        positions.append(HistoryPosition(user_hash, isinstance(item, str)))
    return positions


def fingerprint_of(request: Request) -> RequestFingerprint:
    """Return the fingerprint of a request."""
    items: list[bytes | str] = []
    seen: list[HistoryItem] = []
    for role, parts in _runs(request.messages):
        if role == "user":
            user_digests = [digest for part in parts if (digest := _part_digest(part)) is not None]
            items += user_digests
            seen += user_digests
        elif role == "assistant":
            texts = [text for part in parts if isinstance(part, Text) and (text := squeeze(part.text))]
            digests = tuple(TextDigest.of(text) for text in texts)
            if seen and isinstance(seen[-1], tuple) and isinstance(items[-1], str):
                seen[-1] = (*seen[-1], *digests)
                items[-1] += "".join(texts)
            else:
                seen.append(digests)
                items.append("".join(texts))
    return RequestFingerprint(tuple(items), bool(user_tail(request.messages)), _kind(request), SeenHistory(tuple(seen)))


def match_history(history: SeenHistory, fingerprint: RequestFingerprint) -> int | None:
    """Return how many of the user's parts a session has seen, or None if the request does not continue it."""
    if not history.items or not fingerprint.has_tail:
        return None
    rest = list(reversed(fingerprint.items))
    for index, seen in enumerate(history.items):
        is_torn = history.is_torn and index == len(history.items) - 1
        item = rest[-1] if rest else b""
        if isinstance(seen, bytes):
            if item != seen:
                return None
            rest.pop()
        elif isinstance(item, str):
            if not _holds(item, seen, is_torn=is_torn):
                return None
            rest.pop()
        elif seen and not is_torn:
            return None
    return _seen_count(rest, fingerprint, history)


def _seen_count(rest: Sequence[bytes | str], fingerprint: RequestFingerprint, history: SeenHistory) -> int | None:
    count = sum(isinstance(item, bytes) for item in history.items)
    if not rest:
        # Only tool results are new. They follow text of the agent; otherwise another conversation began the same way.
        return count if isinstance(fingerprint.items[-1], str) else None
    return count if all(isinstance(item, bytes) for item in rest) else None


def extend_history(history: SeenHistory, texts: Iterable[str], *, is_torn: bool) -> SeenHistory:
    """Return the history after further texts of the agent."""
    digests = tuple(TextDigest.of(text) for text in texts if text.strip())
    if history.items and isinstance(history.items[-1], tuple):
        return SeenHistory((*history.items[:-1], (*history.items[-1], *digests)), is_torn)
    return SeenHistory((*history.items, digests), is_torn)


def user_tail(messages: Sequence[Message], seen: int = 0) -> list[Part]:
    """Return the user's parts after the last message of the agent, without the first `seen` parts."""
    tail: list[Part] = []
    count = 0
    for message in messages:
        if message.role == "assistant":
            tail.clear()
        elif message.role == "user":
            for part in message.parts:
                count += _part_digest(part) is not None
                if count > seen or (count == seen and _part_digest(part) is None):
                    tail.append(part)
    return [part for part in tail if not isinstance(part, Text) or part.text.strip()]


def latest_user_text(messages: Sequence[Message]) -> str:
    """Return the newest text of the user, without reminders of the client."""
    texts = [_without_reminders(part.text).strip() for part in user_tail(messages) if isinstance(part, Text)]
    return "\n".join(text for text in texts if text)


def squeeze(text: str) -> str:
    """Return the text without white space."""
    return "".join(text.split())


def _without_reminders(text: str) -> str:
    """Return the text without reminders of the client."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[Part]]]:
    for message in messages:
        if message.role != "system":
            yield message.role, message.parts


def _part_digest(part: Part) -> bytes | None:
    """Return the digest of a part of the user, or None if it is not compared."""
    match part:
        case Text():
            text = squeeze(_without_reminders(part.text))
            return _digest(text) if text else None
        case Image() | File():
            return _digest(part.data or part.url or "")
        case ToolResult() | _:
            return None


def _kind(request: Request) -> RequestKind:
    heads = (
        squeeze(part.text[: 2 * SYSTEM_HEAD])[:SYSTEM_HEAD]
        for message in request.messages
        if message.role == "system"
        for part in message.parts
        if isinstance(part, Text)
    )
    return RequestKind(frozenset(_digest(head) for head in heads if head), bool(request.tools))


def _holds(text: str, digests: TextDigests, *, is_torn: bool) -> bool:
    """Return whether a text contains these texts in order. Of torn ones the beginning is enough."""
    at = 0
    for digest in digests:
        found = _find(text, digest, at)
        if found < 0:
            return is_torn and _begins(text[at:], digest)
        at = found + digest.length
    return True


def _begins(rest: str, digest: TextDigest) -> bool:
    """Return whether one of both texts may be the beginning of the other."""
    if not rest:
        return True
    if digest.head:
        return digest.head.startswith(rest[:HEAD]) or rest.startswith(digest.head)
    size = min(digest.length, HEAD)
    return len(rest) >= size and zlib.crc32(_wide(rest[:size])) == digest.checksum


def _find(text: str, digest: TextDigest, begin: int) -> int:
    if not digest.head:
        return _seek(text, digest, begin)
    at = begin - 1
    for _ in range(TRIES):
        at = text.find(digest.head, at + 1)
        if at < 0 or _digest(text[at : at + digest.length]) == digest.digest:
            return at
    return -1


def _seek(text: str, digest: TextDigest, begin: int) -> int:
    """Find a text whose beginning is not known."""
    last = min(len(text) - digest.length, begin + FARTHEST)
    wide = _wide(text[begin : last + HEAD])
    size = 4 * min(digest.length, HEAD)
    for at in range(begin, last + 1):
        place = 4 * (at - begin)
        is_likely = zlib.crc32(wide[place : place + size]) == digest.checksum
        if is_likely and _digest(text[at : at + digest.length]) == digest.digest:
            return at
    return -1


def _wide(text: str) -> bytes:
    """Encode with four bytes per character, so that offsets are easy to compute."""
    return text.encode("utf-32-le", "surrogatepass")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
