"""Send a stream of events without a leg: until it ends, the client disconnects or the gateway stops."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tieline.frontends.http import Exchange
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

STALL_TIMEOUT = 300.0
"""Seconds after which a client that reads nothing is dropped."""


async def send_events(exchange: Exchange, tasks: Tasks, events: AsyncGenerator[bytes, None]) -> None:
    """Send server-sent events as they come."""
    client = _WatchedClient(exchange)
    leaving = tasks.start(client.cancel_when_left(), "client watch")
    try:
        async with aclosing(events):
            await exchange.begin_stream()
            async for data in events:
                await _write(exchange, data)
        await _write(exchange, b"", last=True)
    except TimeoutError:
        log.info("dropped a client of %s that read nothing for %.0f seconds", exchange.path, STALL_TIMEOUT)
    except asyncio.CancelledError:
        if not await client.finish():
            raise
    finally:
        leaving.cancel()


class _WatchedClient:
    """Cancels the task that serves a stream when the client disconnects."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._task = asyncio.current_task()
        self._has_left = False

    async def cancel_when_left(self) -> None:
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        if self._task is not None:
            self._task.cancel("the client has left")

    async def finish(self) -> bool:
        """Complete the stream after a cancellation; return False if the cancellation has to be propagated."""
        if self._task is not None:
            self._task.uncancel()
        if not self._has_left and self._exchange.begun:
            # The gateway is stopping. Complete the stream, so that the client does not take it for a broken transfer.
            await _write(self._exchange, b"", last=True)
        return self._has_left or self._exchange.begun


async def _write(exchange: Exchange, data: bytes, *, last: bool = False) -> None:
    async with asyncio.timeout(STALL_TIMEOUT):
        await exchange.write(data, last=last)
