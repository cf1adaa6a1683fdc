"""Fingerprints of conversations, to find the session that a request continues.

A client sends the whole history with each request, but often alters it: it may drop thinking, turn activities into
text, add or remove reminders, or shorten tool results. So only two things are compared, both without white space: the
user's parts, which must be equal, and the agent's texts, which must occur in the same order. Whole system messages are
not compared, because they may contain the time of day. The beginnings of system messages, and whether the request
offers tools, distinguish requests that belong to the conversation from side requests by the same client, for example
for a title.

Texts are kept as digests. For each of the agent's texts, the length and the beginning are also kept in memory, to find
the text inside a longer one. The beginning is not written to disk: after a restart, a checksum of it is used instead.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tieline.model.content import File, Image, Message, Part, Text, ToolResult
from tieline.model.request import Request

HEAD = 24
"""Number of characters in `TextDigest.head`."""
TRIES = 64
"""Maximum number of occurrences of a text's beginning that are checked before the search gives up."""
FARTHEST = 1 << 16
"""Maximum number of positions in a text that are searched by checksum. The limit exists because this search is slow."""
SYSTEM_HEAD = 200
"""Number of characters of a system message that are compared. Later text may contain the date and the folder."""

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class TextDigest(NamedTuple):
    """Identifies one of the agent's texts, ignoring white space."""

    length: int
    checksum: int
    """The CRC-32 of the beginning of the text."""
    digest: bytes
    head: str = ""
    """The beginning of the text. It is empty after a restart."""

    @classmethod
    def of(cls, text: str) -> "TextDigest":
        squeezed = squeeze(text)
        head = squeezed[:HEAD]
        return cls(len(squeezed), zlib.crc32(_wide(head)), _digest(squeezed), head)


TextDigests = tuple[TextDigest, ...]
HistoryItem = bytes | TextDigests
"""The digest of one of the user's parts, or the digests of the agent's texts between two of the user's parts."""


class SeenHistory(NamedTuple):
    """The part of a conversation that a session has seen, as digests.

    If `is_torn` is true, the last turn was cut off, so the client may have seen less of the turn's text than the
    session.
    """

    items: tuple[HistoryItem, ...] = ()
    is_torn: bool = False


class RequestKind(NamedTuple):
    """Distinguishes requests that belong to a conversation from side requests by the client, such as one for a title.

    `system` holds digests of the beginnings of the system messages.
    """

    system: frozenset[bytes]
    has_tools: bool
    owner: str = ""
    """The name of the client's key. Clients with different keys never share a conversation."""

    def may_continue(self, other: "RequestKind") -> bool:
        """Return whether a request of this kind may continue a conversation of the other kind.

        One system message in common is enough, because some clients add one that changes with each request.
        """
        is_alike = not self.system.isdisjoint(other.system) or self.system == other.system
        return is_alike and self.owner == other.owner and (self.has_tools or not other.has_tools)


class RequestFingerprint(NamedTuple):
    """The parts of a request that identify its conversation."""

    items: tuple[bytes | str, ...]
    """Digests of the user's parts, and the agent's texts without white space, in the order of the conversation."""
    has_tail: bool
    """Whether the request contains parts from the user after the agent's last message."""
    kind: RequestKind
    history: SeenHistory
    """The history of a session that has received the whole request."""


class HistoryPosition(NamedTuple):
    """A point in a conversation: a hash of the user's parts before it, and whether the agent has answered them."""

    user_hash: int
    is_answered: bool


def position_of(history: SeenHistory) -> HistoryPosition:
    """Return the position at the end of a history. Every request that continues the history contains this position."""
    user_hash = 0
    for item in history.items:
        if isinstance(item, bytes):
            user_hash = hash((user_hash, item))
    is_answered = bool(history.items) and isinstance(history.items[-1], tuple) and bool(history.items[-1])
    return HistoryPosition(user_hash, is_answered and not history.is_torn)


def positions_in(fingerprint: RequestFingerprint) -> list[HistoryPosition]:
    """Return all positions in the conversation that a request contains, in order."""
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
    """Return how many of the user's parts a history contains. Return None if the request does not continue it."""
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
        # Only tool results are new. They must follow a message from the agent; otherwise the request belongs to another
        # conversation that began the same way.
        return count if isinstance(fingerprint.items[-1], str) else None
    return count if all(isinstance(item, bytes) for item in rest) else None


def extend_history(history: SeenHistory, texts: Iterable[str], *, is_torn: bool) -> SeenHistory:
    """Return a history with the agent's `texts` added. `is_torn` says whether the turn was cut off."""
    digests = tuple(TextDigest.of(text) for text in texts if text.strip())
    if history.items and isinstance(history.items[-1], tuple):
        return SeenHistory((*history.items[:-1], (*history.items[-1], *digests)), is_torn)
    return SeenHistory((*history.items, digests), is_torn)


def user_tail(messages: Sequence[Message], seen: int = 0) -> list[Part]:
    """Return the user's parts after the agent's last message.

    The user's first `seen` parts, counted from the beginning of the conversation, are left out.
    """
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
    """Return the user's text after the agent's last message, without the reminders that the client inserted."""
    texts = [_without_reminders(part.text).strip() for part in user_tail(messages) if isinstance(part, Text)]
    return "\n".join(text for text in texts if text)


def squeeze(text: str) -> str:
    """Return `text` without white space."""
    return "".join(text.split())


def _without_reminders(text: str) -> str:
    """Return `text` without the reminders that the client inserted."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def _runs(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[Part]]]:
    for message in messages:
        if message.role != "system":
            yield message.role, message.parts


def _part_digest(part: Part) -> bytes | None:
    """Return the digest of one of the user's parts, or None if the part is not compared."""
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
    return RequestKind(frozenset(_digest(head) for head in heads if head), bool(request.tools), request.owner)


def _holds(text: str, digests: TextDigests, *, is_torn: bool) -> bool:
    """Return whether `text` contains the digested texts in order. If `is_torn` is true, `text` may end early."""
    at = 0
    for digest in digests:
        found = _find(text, digest, at)
        if found < 0:
            return is_torn and _begins(text[at:], digest)
        at = found + digest.length
    return True


def _begins(rest: str, digest: TextDigest) -> bool:
    """Return whether `rest` could be the beginning of the digested text, or could begin with the digested text."""
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
    """Find a digested text by the checksum of its beginning. Return its index, or -1 if it is not found."""
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
    """Encode a text with four bytes per character, so that byte offsets are easy to compute."""
    return text.encode("utf-32-le", "surrogatepass")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
