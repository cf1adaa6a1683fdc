"""The traffic view's source of legs: those that this process has recorded."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from tieline.core.watch.bus import Bus
from tieline.core.watch.record import LegDetail, LegSummary
from tieline.model.scope import Scope


class TrafficSource(Protocol):
    """Returns recorded legs."""

    async def legs(self, before: str | None, query: str, scope: Scope) -> Sequence[LegSummary | msgspec.Raw]:
        """Return the summaries of the newest legs in a scope that match the query, or of those before a given leg."""

    async def detail(self, leg_id: str, scope: Scope) -> bytes:
        """Return everything that is recorded about a leg, as JSON. Raise GatewayError if there is no such record."""


class RecordedTraffic:
    """The legs that this process has recorded."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def legs(self, before: str | None, query: str, scope: Scope) -> Sequence[LegSummary]:
        return self._bus.legs(before, query, scope)

    async def detail(self, leg_id: str, scope: Scope) -> bytes:
        return detail_json(self._bus, self._bus.detail(leg_id, scope))


def detail_json(bus: Bus, detail: LegDetail) -> bytes:
    """Return the request and the events of a leg as JSON, with secrets removed."""
    request = msgspec.json.decode(msgspec.json.encode(detail.request))
    for shown, tool in zip(request.get("tools", ()), detail.request.tools, strict=True):
        shown["schema"] = _schema(tool.schema)
    whole = {"leg": detail.leg, "request": request, "events": detail.events, "notes": detail.notes}
    return bus.hide(msgspec.json.encode({**whole, "shown": detail.shown}).decode()).encode()


def _schema(schema: bytes) -> Any:
    try:
        return msgspec.json.decode(schema)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
