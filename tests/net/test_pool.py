"""Connections between exchanges: reuse, staleness, limits, rest and closing time."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.net.upstream import OK, WAIT, Peer, Script, answering, saying, serving, until
from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts
from tieline.net.client.pool import PooledConnection

CLOSING = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def opened(per_origin: int = 1024, idle_keep: float = 30.0) -> AsyncIterator[HttpClient]:
    client = HttpClient(per_origin=per_origin, idle_keep=idle_keep)
    try:
        async with asyncio.timeout(WAIT):
            yield client
    finally:
        await client.aclose()


async def ask(client: HttpClient, origin: Origin) -> bytes:
    response = await client.send(origin, "GET", "/", ())
    return await response.read(100)


async def test_a_connection_is_used_again() -> None:
    async with serving(answering(OK, OK, OK)) as upstream, opened() as client:
        assert [await ask(client, upstream.origin) for _ in range(3)] == [b"ok"] * 3
        assert upstream.connections == 1


async def test_the_connection_that_rested_last_is_used_first() -> None:
    turns = {1: asyncio.Event(), 2: asyncio.Event()}

    async def script(peer: Peer) -> None:
        while await peer.request():
            await turns[peer.number].wait()
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % peer.number)

    async with serving(script) as upstream, opened() as client:
        asked = [asyncio.create_task(ask(client, upstream.origin)) for _ in range(2)]
        for number in (2, 1):
            turns[number].set()
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            asked = [task for task in asked if not task.done()]
        assert await ask(client, upstream.origin) == b"1"


@pytest.mark.parametrize(
    "answer",
    [
        CLOSING,
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        OK + b"junk",
    ],
    ids=["close", "1.0", "second answer", "junk"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_used_again(answer: bytes) -> None:
    async with serving(answering(answer, OK)) as upstream, opened() as client:
        assert [await ask(client, upstream.origin) for _ in range(2)] == [b"ok"] * 2
        assert upstream.connections == 2


async def test_a_body_behind_the_answer_to_a_head_request_is_left_out_with_its_connection() -> None:
    async with serving(answering(OK, OK)) as upstream, opened() as client:
        response = await client.send(upstream.origin, "HEAD", "/", ())
        assert await response.read(100) == b""
        assert await ask(client, upstream.origin) == b"ok"
        assert upstream.connections == 2


async def test_bytes_nobody_asked_for_never_become_an_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        if peer.number == 1:
            await evil.wait()
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
            await peer.hung_up()
            dropped.set()

    evil, dropped = asyncio.Event(), asyncio.Event()
    async with serving(script) as upstream, opened() as client:
        await ask(client, upstream.origin)
        evil.set()
        await dropped.wait()
        assert await ask(client, upstream.origin) == b"ok"


async def test_a_connection_closed_while_it_rested_is_not_used() -> None:
    async with serving(saying(OK)) as upstream, opened() as client:
        for _ in range(3):
            assert await ask(client, upstream.origin) == b"ok"
            await asyncio.gather(*upstream.tasks)
        assert upstream.connections == 3


def closing_on_the_second_request(said: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        if peer.number == 1:
            await peer.request()
            await peer.say(said)

    return script


async def test_a_stale_connection_is_replaced_by_a_fresh_one() -> None:
    async with serving(closing_on_the_second_request(b"")) as upstream, opened() as client:
        assert [await ask(client, upstream.origin) for _ in range(2)] == [b"ok"] * 2
        assert upstream.connections == 2


async def test_a_connection_that_has_begun_to_answer_is_not_stale() -> None:
    async with serving(closing_on_the_second_request(b"HTTP/1.1 ")) as upstream, opened() as client:
        await ask(client, upstream.origin)
        with pytest.raises(PipeError) as caught:
            await ask(client, upstream.origin)
        assert upstream.connections == 1
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("first_byte", "reset", True)


async def test_a_fresh_connection_that_dies_is_not_tried_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.say(OK)
            await peer.request()

    async with serving(script) as upstream, opened() as client:
        await ask(client, upstream.origin)
        with pytest.raises(PipeError) as caught:
            await ask(client, upstream.origin)
        assert upstream.connections == 2
    assert (caught.value.reason, caught.value.sent) == ("reset", True)


async def test_a_failed_retry_admits_that_the_request_may_have_arrived() -> None:
    async with opened() as client:
        async with serving(answering(OK)) as upstream:
            await ask(client, upstream.origin)
            retried = asyncio.create_task(ask(client, upstream.origin))
            for task in upstream.tasks:
                task.cancel()
            upstream.tasks.clear()
        with pytest.raises(PipeError) as caught:
            await retried
    assert caught.value.sent


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nend\r\n"


async def test_a_released_response_keeps_its_connection_when_the_end_comes_late() -> None:
    released = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED)
        await released.wait()
        await peer.say(b"0\r\n\r\n")
        await peer.request()
        await peer.say(OK)
        await peer.hung_up()

    async with serving(script) as upstream, opened(per_origin=1) as client:
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.chunk() == b"end"
        response.release()
        response.close()
        released.set()
        assert await ask(client, upstream.origin) == b"ok"
        assert upstream.connections == 1


async def test_a_released_response_without_an_end_is_given_up_soon() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED)
        assert await peer.hung_up()

    async with serving(script) as upstream, opened() as client:
        response = await client.send(upstream.origin, "GET", "/", ())
        await response.chunk()
        response.release(grace=0.01)


async def test_a_resting_connection_is_dropped_after_a_while() -> None:
    dropped = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream, opened(idle_keep=0.02) as client:
        await ask(client, upstream.origin)
        await dropped.wait()


async def test_too_many_requests_wait_their_turn_in_order() -> None:
    served: list[bytes] = []

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            served.append(request.split(b" ")[1])
            await peer.say(OK)

    async def one(number: int) -> None:
        response: HttpResponse = await client.send(upstream.origin, "GET", f"/{number}", ())
        await response.read(9)

    async with serving(script) as upstream, opened(per_origin=1) as client:
        await asyncio.gather(*(one(number) for number in range(5)))
        assert served == [b"/0", b"/1", b"/2", b"/3", b"/4"]
        assert upstream.connections == 1


async def test_a_slot_that_falls_free_is_given_to_the_next_in_line() -> None:
    async with serving(answering(CLOSING)) as upstream, opened(per_origin=1) as client:
        assert await asyncio.gather(*(ask(client, upstream.origin) for _ in range(4))) == [b"ok"] * 4
        assert upstream.connections == 4


async def test_waiting_too_long_for_a_connection_is_busy() -> None:
    async with serving(answering(b"")) as upstream, opened(per_origin=1) as client:
        first = asyncio.create_task(ask(client, upstream.origin))
        await until(lambda: upstream.connections == 1)
        with pytest.raises(PipeError) as caught:
            await client.send(upstream.origin, "GET", "/", (), timeouts=Timeouts(pool=0.02))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("connect", "busy", False)
    assert upstream.origin.authority in caught.value.message


async def test_a_waiter_that_is_cancelled_loses_no_slot() -> None:
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        while await peer.request():
            await release.wait()
            await peer.say(OK)

    async with serving(script) as upstream, opened(per_origin=1) as client:
        first, second, third = (asyncio.create_task(ask(client, upstream.origin)) for _ in range(3))
        await until(lambda: upstream.connections == 1)
        second.cancel()
        release.set()
        assert (await first, await third) == (b"ok", b"ok")
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_a_waiter_cancelled_at_the_moment_it_is_served_passes_the_connection_on() -> None:
    async with serving(answering(OK, OK)) as upstream, opened(per_origin=1) as client:
        response = await client.send(upstream.origin, "GET", "/", ())
        second, third = (asyncio.create_task(ask(client, upstream.origin)) for _ in range(2))
        while await response.chunk():
            pass
        second.cancel()
        assert await third == b"ok"
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_closing_the_client_ends_everything_at_once() -> None:
    async with serving(answering(b"")) as upstream, opened(per_origin=1) as client:
        reading, queued = (asyncio.create_task(ask(client, upstream.origin)) for _ in range(2))
        await until(lambda: upstream.connections == 1)
        await client.aclose()
        errors = await asyncio.gather(reading, queued, return_exceptions=True)
        with pytest.raises(PipeError, match="closed"):
            await ask(client, upstream.origin)
        with pytest.raises(PipeError, match="closed"):
            await ask(client, Origin("http", "127.0.0.1", 1))
    assert [error.reason for error in errors if isinstance(error, PipeError)] == ["reset", "busy"]


async def test_closing_the_client_twice_is_harmless() -> None:
    async with opened() as client:
        await client.aclose()
        await client.aclose()


async def test_a_finished_connection_needs_no_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        async with serving(saying(CLOSING)) as upstream, opened() as client:
            before = sum(isinstance(thing, PooledConnection) for thing in gc.get_objects())
            for _ in range(5):
                await ask(client, upstream.origin)
            await asyncio.gather(*upstream.tasks)
            await client.aclose()
            left = sum(isinstance(thing, PooledConnection) for thing in gc.get_objects()) - before
    finally:
        gc.enable()
    assert left <= 1  # the task that asked last may still hold its own
