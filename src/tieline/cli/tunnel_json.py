"""The output of `tieline tunnel --json`: one JSON object per line, for programs such as an editor's extension.

{"event": "open", "url": "https://…/cursor/v1", "key": "…", "models": […]}
{"event": "request", "model": "…", "status": 200}
{"event": "closed", "reason": "…"}
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tieline.app.tunnel import OpenTunnel
from tieline.core.watch.bus import BusEvent, LegChanged
from tieline.core.watch.secrets import HIDDEN
from tieline.frontends.http import Exchange
from tieline.model.errors import GatewayError
from tieline.model.events import Failed

MAX_MODELS = 1000
MAX_SHOWN = 200


class JsonLog:
    """Prints the events of a tunnel. `clock` returns Unix time. The `key` is printed only when the tunnel opens.

    Anyone can send requests that are refused, so at most one of them is printed per second.
    """

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float], key: str) -> None:
        self._say = say
        self._clock = clock
        self._key = key
        self._refused_at = 0.0

    def opened(self, tunnel: OpenTunnel, key: str) -> None:
        """Print what to enter in Cursor's settings."""
        self._event("open", url=f"{tunnel.url}/cursor/v1", key=key, models=tunnel.models[:MAX_MODELS])

    def closed(self, reason: str) -> None:
        """Print that the tunnel is closed."""
        self._event("closed", reason=reason)

    def watch(self, event: BusEvent) -> None:
        """If the event is the end of a leg, print it. Ignore all other events."""
        if not isinstance(event, LegChanged) or event.record.duration is None:
            return
        record = event.record
        self._request(record.request.model, record.ending.status if isinstance(record.ending, Failed) else 200)

    def observe(self, _: Exchange, error: GatewayError | None) -> None:
        """Print a request that was refused."""
        now = self._clock()
        if error is not None and error.kind != "not_found" and now - self._refused_at >= 1:
            self._refused_at = now
            self._request("", error.status)

    def _request(self, model: str, status: int) -> None:
        self._event("request", model=model.replace(self._key, HIDDEN)[:MAX_SHOWN], status=status)

    def _event(self, event: str, **fields: Any) -> None:
        self._say(msgspec.json.encode({"event": event, **fields}).decode())
