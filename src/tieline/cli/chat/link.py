"""Follows the gateway's event stream, and reconnects when the connection is lost or the gateway restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from tieline.cli.chat.api import ChatApi, GatewayState, News
from tieline.model.errors import GatewayError

FIRST_PAUSE = 0.3
LONGEST_PAUSE = 5.0


class ReceivedEvent(NamedTuple):
    """A message from the stream, with its number, if it has one."""

    seq: int | None
    news: News


class Lost(NamedTuple):
    """The gateway does not answer. The link keeps trying, unless `is_final` is true."""

    reason: str
    is_final: bool = False


class Back(NamedTuple):
    """The stream was interrupted, and the gateway answers again. The conversation must be loaded again."""

    state: GatewayState


LinkEvent = ReceivedEvent | Lost | Back


async def follow(
    api: ChatApi,
    state: GatewayState,
    put: Callable[[LinkEvent], Awaitable[None]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Pass everything that happens after `state` to `put`, until cancelled or until the gateway rejects the key."""
    seq = state.seq
    while True:
        try:
            async with aclosing(api.stream(seq)) as messages:
                async for number, news in messages:
                    if news is not None:
                        await put(ReceivedEvent(number, news))
        except GatewayError as error:
            if error.kind == "unauthorized":
                await put(Lost(error.message, is_final=True))
                return
        found = await _reconnect(api, put, sleep)
        if found is None:
            return
        seq = found.seq
        await put(Back(found))


async def _reconnect(
    api: ChatApi, put: Callable[[LinkEvent], Awaitable[None]], sleep: Callable[[float], Awaitable[None]]
) -> GatewayState | None:
    """Return the new state as soon as the gateway answers, or None if it rejects the key.

    A short interruption is not reported.
    """
    pause, is_reported = FIRST_PAUSE, False
    while True:
        await sleep(pause)
        try:
            return await api.state()
        except GatewayError as error:
            is_final = error.kind == "unauthorized"
            if not is_reported or is_final:
                await put(Lost(error.message, is_final=is_final))
            if is_final:
                return None
            is_reported = True
        pause = min(2 * pause, LONGEST_PAUSE)
