"""What could not be carried over to the other side of a leg, and who hears of it.

Every loss is a note in the record of its leg and an item of the response header HEADER. The log names each kind once at
its default level: a client repeats the same request field for hours.
"""

import re
from collections.abc import Iterable

from tieline.model.content import STATE, Foreign, Part
from tieline.model.events import Headers, Note, left_out

HEADER = "x-tieline-dropped"
MAX_ITEMS = 16
MAX_ITEM = 60
MAX_KINDS = 1024
"""How many kinds are told apart in the log; further ones are logged like other notes."""

_UNSAFE = re.compile(r"[^\x21-\x2b\x2d-\x7e]+")
_NEUTRAL = frozenset((STATE, "cache_control"))


class Losses:
    """Knows which kinds of losses the log has named."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str]] = set()

    def is_new(self, frontend: str, backend: str, what: str) -> bool:
        """Whether this kind of loss is seen for the first time."""
        kind = frontend, backend, what
        if kind in self._known or len(self._known) >= MAX_KINDS:
            return False
        self._known.add(kind)
        return True


def header(dropped: Iterable[str]) -> Headers:
    """The response header that names what was dropped; none if nothing was."""
    items = list(dict.fromkeys(text for what in dropped if (text := _UNSAFE.sub(" ", what).strip()[:MAX_ITEM])))
    if not items:
        return ()
    more = [f"{len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else []
    return ((HEADER, ", ".join([*items[:MAX_ITEMS], *more])),)


def in_answer(part: Part, protocol: str) -> list[Note]:
    """What a client of this protocol does not get of a part of the answer."""
    why = "the client's protocol has no place for it"
    if type(part) is Foreign:
        return [] if part.protocol == protocol else [left_out(part.kind, why)]
    details = [part.meta[name] for name in part.meta if name not in _NEUTRAL and name != protocol]
    return [left_out(str(name), why) for detail in details if isinstance(detail, dict) for name in detail]
