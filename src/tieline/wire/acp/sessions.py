"""The sessions of one agent by name, and what is told of a session before anybody knows its name.

Agents tell of a new session before they answer the request that opened it. Such updates wait until it is open, up to a
bound; whatever nobody opened is understood as well as possible and not remembered.
"""

from collections import deque

from msgspec import Raw

from tieline.wire.acp import facts, updates
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.session import Session
from tieline.wire.shared.lenient import decode

HELD_UPDATES = 4096
HELD_BYTES = 16 * 1024 * 1024
"""How much may be told of sessions before they are open."""

_SHOWN = 200


class Sessions:
    """All sessions that were opened and not forgotten."""

    def __init__(self) -> None:
        self._by_name: dict[str, Session] = {}
        self._held: deque[Raw] = deque()
        self._held_size = 0

    def get(self, name: str) -> Session | None:
        """A session that is open."""
        return self._by_name.get(name)

    def open(self, name: str) -> Session:
        """A session that is open from now on, or is already."""
        return self._by_name.setdefault(name, Session(name))

    def forget(self, name: str) -> None:
        """A session is closed."""
        self._by_name.pop(name, None)

    def find(self, name: str, call: str = "") -> Session:
        """The session something is about; if it does not say, the one with this call, or the only one at work."""
        known = self._by_name.get(name)
        if known is not None or name:
            return known or Session(name)
        sessions = self._by_name.values()
        with_call = [session for session in sessions if call and call in session.calls]
        at_work = [session for session in sessions if session.turn is not None]
        return next((found[0] for found in (with_call, at_work) if len(found) == 1), Session(""))

    def update(self, params: Raw, *, is_opening: bool) -> list[Fact]:
        """What one update tells; while a session is being opened, those of unknown ones have to wait."""
        told = decode(updates.UpdateParams, params) or decode(updates.UpdateShell, params)
        if told is None:
            return [facts.Stray(reason="an update that is no object", beginning=_shown(params))]
        known = self._by_name.get(told.session_id)
        if known is None and is_opening:
            return self._hold(params)
        if isinstance(told, updates.UpdateShell):
            return [_unknown(told)]
        return (known or Session(told.session_id)).update(told.update)

    def release(self, *, is_opening: bool) -> list[Fact]:
        """What had to wait and need not any more."""
        if not self._held:
            return []
        held, self._held, self._held_size = self._held, deque(), 0
        found: list[Fact] = []
        for params in held:
            found += self.update(params, is_opening=is_opening)
        return found

    def _hold(self, params: Raw) -> list[Fact]:
        self._held.append(params.copy())
        self._held_size += len(bytes(params))
        lost: list[Fact] = []
        while len(self._held) > HELD_UPDATES or self._held_size > HELD_BYTES:
            dropped = self._held.popleft()
            self._held_size -= len(bytes(dropped))
            lost.append(facts.Stray(reason="too much is told of sessions that are not open", beginning=_shown(dropped)))
        return lost


def _unknown(told: updates.UpdateShell) -> Fact:
    head = decode(updates.UpdateHead, told.update)
    text = bytes(told.update).decode("utf-8", "replace")
    return facts.UnknownUpdate(session=told.session_id, kind=head.session_update if head else "", json=text)


def _shown(params: Raw) -> str:
    return bytes(params)[:_SHOWN].decode("utf-8", "replace")
