"""The link to the gateway: it reconnects where it was, and says when it cannot."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.cli.chat.replay import events, playing, recorded, state
from tieline.cli.chat.api import ChatApi, GatewayState
from tieline.cli.chat.link import Back, LinkEvent, Lost, ReceivedEvent, follow

PATIENCE = 30.0
UNAUTHORIZED = (401, b'{"error": {"message": "This gateway needs its key."}}')


async def linked(api: ChatApi, enough: Callable[[list[LinkEvent]], bool]) -> list[LinkEvent]:
    """What the link reports until it is enough, without any pauses."""
    heard: list[LinkEvent] = []
    done = asyncio.Event()

    async def put(event: LinkEvent) -> None:
        heard.append(event)
        if enough(heard):
            done.set()

    async def no_pause(_: float) -> None:
        await asyncio.sleep(0)

    work: Awaitable[None] = follow(api, GatewayState(seq=0), put, sleep=no_pause)
    task = asyncio.ensure_future(work)
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([task, asyncio.ensure_future(done.wait())], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    return heard


async def test_a_short_interruption_is_not_reported_and_nothing_comes_twice() -> None:
    messages = recorded()
    cut = messages[5][0]
    asked: list[int | None] = []

    def answer(path: str, since: int | None) -> tuple[int, bytes]:
        if path == "/api/state":
            return 200, state(cut)
        asked.append(since)
        first = [message for message in messages if message[0] <= cut]
        return 200, events(first if len(asked) == 1 else messages, since or 0)

    async with playing(answer) as api:
        heard = await linked(
            api, lambda events: any(isinstance(one, ReceivedEvent) and one.seq == 19 for one in events)
        )
    numbers = [event.seq for event in heard if isinstance(event, ReceivedEvent) and event.seq is not None]
    assert numbers == sorted(set(numbers))
    assert asked[:2] == [0, cut]
    assert not any(isinstance(event, Lost) for event in heard)
    assert sum(isinstance(event, Back) for event in heard) >= 1


async def test_a_gateway_that_is_away_for_longer_is_reported_once() -> None:
    tries = 0

    def answer(path: str, _: int | None) -> tuple[int, bytes]:
        nonlocal tries
        if path != "/api/state":
            return 200, b""
        tries += 1
        return (503, b"") if tries % 5 else (200, state(7))

    async with playing(answer) as api:
        heard = await linked(api, lambda events: any(isinstance(one, Back) for one in events))
    assert [type(event) for event in heard[:2]] == [Lost, Back]


async def test_a_wrong_key_ends_the_link() -> None:
    async with playing(lambda _, __: UNAUTHORIZED) as api:
        heard = await linked(api, lambda _: False)
    assert heard == [Lost("This gateway needs its key.", is_final=True)]
