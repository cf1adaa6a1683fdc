"""The open sessions of one agent, and the updates for sessions that are not open yet.

Agents may send updates for a new session before they answer the request that creates it. Such updates are held back
until the session is open; if there are too many, the oldest are dropped. Updates for a session that was never opened
are converted to facts, but no state is kept for the session.
"""

from collections import deque

from msgspec import Raw

from tieline.wire.acp import facts, updates
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.session import ClientSession
from tieline.wire.shared.lenient import decode

HELD_UPDATES = 4096
"""The maximum number of updates that are held back."""
HELD_BYTES = 16 * 1024 * 1024
"""The maximum total size in bytes of the updates that are held back."""

_SHOWN = 200


class ClientSessions:
    """The open sessions of one agent, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, ClientSession] = {}
        self._held: deque[Raw] = deque()
        self._held_size = 0

    def get(self, name: str) -> ClientSession | None:
        """Return the open session with this name, or None."""
        return self._by_name.get(name)

    def open(self, name: str) -> ClientSession:
        """Return the session with this name, and open it if necessary."""
        return self._by_name.setdefault(name, ClientSession(name))

    def forget(self, name: str) -> None:
        """Remove the session with this name, if it is open."""
        self._by_name.pop(name, None)

    def find(self, name: str, call: str = "") -> ClientSession:
        """Return the open session with this name. If there is none, return a new session without registering it.

        If the name is empty, return the only session that contains the tool call `call`, or else the only session with
        a turn in progress.
        """
        known = self._by_name.get(name)
        if known is not None or name:
            return known or ClientSession(name)
        sessions = self._by_name.values()
        with_call = [session for session in sessions if call and call in session.calls]
        at_work = [session for session in sessions if session.turn is not None]
        return next((found[0] for found in (with_call, at_work) if len(found) == 1), ClientSession(""))

    def update(self, params: Raw, *, is_opening: bool) -> list[Fact]:
        """Return the facts in an update. `params` are the parameters of the `session/update` notification.

        `is_opening` says whether a session is being created. If so, updates for unknown sessions are held back.
        """
        parsed = decode(updates.UpdateParams, params) or decode(updates.UpdateShell, params)
        if parsed is None:
            return [facts.Stray(reason="an update that is not an object", beginning=_shown(params))]
        known = self._by_name.get(parsed.session_id)
        if known is None and is_opening:
            return self._hold(params)
        if isinstance(parsed, updates.UpdateShell):
            return [_unknown(parsed)]
        return (known or ClientSession(parsed.session_id)).update(parsed.update)

    def release(self, *, is_opening: bool) -> list[Fact]:
        """Process the updates that were held back, and return the facts in them. See `update` for `is_opening`."""
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
            lost.append(facts.Stray(reason="too many updates for unopened sessions", beginning=_shown(dropped)))
        return lost


def _unknown(parsed: updates.UpdateShell) -> Fact:
    head = decode(updates.UpdateHead, parsed.update)
    text = bytes(parsed.update).decode("utf-8", "replace")
    return facts.UnknownUpdate(session=parsed.session_id, kind=head.session_update if head else "", json=text)


def _shown(params: Raw) -> str:
    return bytes(params)[:_SHOWN].decode("utf-8", "replace")
