"""Report losses: fields and content that could not be translated between the protocols of client and upstream.

Every loss is noted in the record of its leg, and listed in the response header HEADER or, if the answer has no headers
of its own, elsewhere in the answer. Only the first loss of each kind is logged as a warning, because clients repeat the
same fields in every request.
"""

import re
from collections.abc import Iterable

from tieline.model.content import STATE, Foreign, Part, Text
from tieline.model.events import Headers, Note, left_out

HEADER = "x-tieline-dropped"
MAX_ITEMS = 16
MAX_ITEM = 60
MAX_KINDS = 1024
"""Maximum number of kinds of losses that are tracked; losses of further kinds are not logged as warnings."""

_UNSAFE = re.compile(r"[^\x21-\x2b\x2d-\x7e]+")
_NEUTRAL = frozenset((STATE, "cache_control"))


class LossLog:
    """Tracks which kinds of losses have been logged as warnings."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str]] = set()

    def is_new(self, frontend: str, backend: str, what: str) -> bool:
        """Return whether this kind of loss is new, and remember it. `what` names the lost field or content."""
        kind = frontend, backend, what
        if kind in self._known or len(self._known) >= MAX_KINDS:
            return False
        self._known.add(kind)
        return True


def header(dropped: Iterable[str]) -> Headers:
    """Return the response header that lists the dropped items, or an empty tuple if there are none."""
    text = listed(dropped)
    return ((HEADER, text),) if text else ()


def listed(dropped: Iterable[str]) -> str:
    """Return the dropped items as one short line; empty if there are none."""
    items = list(dict.fromkeys(text for what in dropped if (text := _UNSAFE.sub(" ", what).strip()[:MAX_ITEM])))
    more = [f"{len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else []
    return ", ".join([*items[:MAX_ITEMS], *more])


def losses_in(part: Part, protocol: str) -> list[Note]:
    """Return a note for each item in a part that this protocol cannot express."""
    why = "the client's protocol has no place for it"
    if type(part) is Foreign:
        return [] if part.protocol == protocol else [left_out(part.kind, why)]
    if type(part) is not Text:
        return []  # the details of calls and thinking matter only to the upstream
    details = [part.meta[name] for name in part.meta if name not in _NEUTRAL and name != protocol]
    return [left_out(str(name), why) for detail in details if isinstance(detail, dict) for name in detail]
