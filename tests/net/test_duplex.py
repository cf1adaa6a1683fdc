"""Two-way streams: what goes out, what comes back meanwhile, and who waits for whom, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

import pytest
from h2.errors import ErrorCodes
from h2.events import StreamReset

from tests.each import each
from tests.net.h2_server import Call, begin, body_of, echo, facts, frame, hold, serving_h2
from tests.net.upstream import WAIT, until
from tieline.net.h2.client import Http2Client, Origin, PipeError, Timeouts

MEBIBYTE = 1024 * 1024


@asynccontextmanager
async def opened(stream_window: int = MEBIBYTE, connection_window: int = 16 * MEBIBYTE) -> AsyncIterator[Http2Client]:
    client = Http2Client(stream_window=stream_window, connection_window=connection_window)
    try:
        async with asyncio.timeout(WAIT):
            yield client
    finally:
        await client.aclose()


# ── both ways at once ──


async def test_a_request_goes_on_while_its_response_comes_in() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        heard = []
        await stream.send(b"")
        for message in (b"one", b"two", b"three"):
            await stream.send(message)
            heard.append(await stream.chunk())
        stream.end()
        assert (await stream.status(), await stream.chunk()) == (200, b"")
        assert heard == [b"one", b"two", b"three"]
        assert stream.headers == [("content-type", "application/octet-stream")]
        assert stream.header("content-type") == "application/octet-stream"
        assert stream.header("x-none") is None


async def test_a_stream_is_open_before_anything_has_answered() -> None:
    async def answer(call: Call) -> None:
        assert await call.read() == b"first"
        call.respond(202)
        await call.say(b"late", end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.send(b"first")
        assert (await stream.status(), await body_of(stream)) == (202, b"late")


async def test_the_head_of_a_request_is_written_as_it_was_given() -> None:
    async def answer(call: Call) -> None:
        call.respond(204, end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await client.open(upstream.origin, "/a/b?c=1", [("X-Name", "J\xfcrgen"), ("authorization", "key")])
        await stream.status()
    assert upstream.calls[0].headers == {
        ":method": "POST",
        ":scheme": "http",
        ":authority": upstream.origin.authority,
        ":path": "/a/b?c=1",
        "x-name": "J\xfcrgen",
        "authorization": "key",
    }


@each(
    ("path", "header", "complaint"),
    [
        ("/", ("x-key", "secret\r\nx-evil: 1"), "'x-key' contains a character"),
        ("/", ("x-key", "secret\x00"), "'x-key' contains a character"),
        ("/", ("x-key", "secret→"), "'x-key' contains a character"),
        ("/", ("x key", "1"), "not a header name"),
        ("/", (":path", "/evil"), "not a header name"),
        ("/", ("Connection", "close"), "not allowed in HTTP/2"),
        ("/", ("host", "evil"), "not allowed in HTTP/2"),
        ("/a b", ("x", "1"), "a request path"),
        ("v1", ("x", "1"), "a request path"),
    ],
)
async def test_what_cannot_be_written_down_is_refused_without_repeating_it(
    path: str, header: tuple[str, str], complaint: str
) -> None:
    async with opened() as client:
        with pytest.raises(ValueError, match=complaint) as caught:
            await client.open(Origin("http", "127.0.0.1", 1), path, [header])
    assert "secret" not in str(caught.value)


async def test_everything_that_has_arrived_is_given_at_once() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        for piece in (b"a", b"b", b"c"):
            await call.say(piece)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: len(stream.incoming) == 3)
        assert await stream.chunk() == b"abc"
        stream.close()


async def test_frames_may_come_in_any_pieces() -> None:
    async with serving_h2(echo, each_byte=True) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.send(b"hello" * 100)
        stream.end()
        assert (await stream.status(), await body_of(stream)) == (200, b"hello" * 100)


async def test_trailers_come_after_the_body() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(b"body")
        call.trail(("grpc-status", "8"), ("grpc-message", "no"))

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        assert await body_of(stream) == b"body"
        assert stream.trailers == [("grpc-status", "8"), ("grpc-message", "no")]
        stream.close()


async def test_a_response_may_be_a_head_and_nothing_else() -> None:
    async def answer(call: Call) -> None:
        call.respond(464, ("x-why", "because"), end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        assert (await stream.status(), await stream.chunk(), stream.trailers) == (464, b"", [])
        stream.close()


async def test_hints_before_the_head_are_passed_over() -> None:
    async def answer(call: Call) -> None:
        call.respond(103, ("link", "x"))
        call.respond(200, ("content-length", "4"))
        await call.say(b"bo")
        await call.say(b"dy", end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        assert (await stream.status(), await body_of(stream)) == (200, b"body")
        stream.close()


# ── the end of a request ──


async def test_the_end_of_a_request_leaves_the_response_open() -> None:
    async def answer(call: Call) -> None:
        assert await call.read_all() == b"question"
        call.respond()
        await call.say(b"answer", end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.send(b"question")
        stream.end()
        stream.end()
        assert await body_of(stream) == b"answer"
        with pytest.raises(RuntimeError, match="after the end"):
            await stream.send(b"more")


async def test_the_end_of_a_response_leaves_the_request_open() -> None:
    ended = asyncio.Event()

    async def answer(call: Call) -> None:
        call.respond(200, end=True)
        assert await call.read_all() == b"more"
        ended.set()

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        assert await body_of(stream) == b""
        await stream.send(b"more")
        stream.end()
        await ended.wait()
        stream.close()
    assert not any(isinstance(event, StreamReset) for event in upstream.peers[0].events)


async def test_the_end_of_a_request_waits_for_what_was_sent_before() -> None:
    async def answer(call: Call) -> None:
        await go.wait()
        heard.append(await call.read_all())
        call.respond(200, end=True)

    go, heard, message = asyncio.Event(), list[bytes](), bytes(200_000)
    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        sending = asyncio.create_task(stream.send(message))
        await until(lambda: stream.sent == 65535)
        stream.end()
        go.set()
        await sending
        await stream.status()
    assert heard == [message]


async def test_messages_sent_at_the_same_time_do_not_mix() -> None:
    async def answer(call: Call) -> None:
        heard.append(await call.read_all())
        call.respond(200, end=True)

    heard: list[bytes] = []
    messages = [bytes([letter]) * 100_000 for letter in b"abc"]
    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await asyncio.gather(*(stream.send(message) for message in messages))
        stream.end()
        await stream.status()
    assert heard == [b"".join(messages)]


async def test_a_message_whose_sender_was_cancelled_arrives_whole() -> None:
    async def answer(call: Call) -> None:
        await go.wait()
        heard.append(await call.read_all())
        call.respond(200, end=True)

    go, heard = asyncio.Event(), list[bytes]()
    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        sending = asyncio.create_task(stream.send(b"a" * 100_000))
        await until(lambda: stream.sent == 65535)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        go.set()
        await stream.send(b"b")
        stream.end()
        await stream.status()
    assert heard == [b"a" * 100_000 + b"b"]


# ── flow control ──


async def test_bodies_of_many_windows_pass_both_ways() -> None:
    async def answer(call: Call) -> None:
        heard.append(await call.read_all())
        call.respond()
        await call.say(heard[0], end=True)

    heard: list[bytes] = []
    body = bytes(range(256)) * (3 * 4096)
    async with serving_h2(answer) as upstream, opened(stream_window=65536, connection_window=100_000) as client:
        stream = await begin(client, upstream.origin)
        await stream.send(body)
        stream.end()
        assert await body_of(stream) == body == heard[0]


async def test_a_slow_reader_holds_up_its_own_stream_only() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(bytes(300_000), end=True)

    async with serving_h2(answer) as upstream, opened(stream_window=20_000) as client:
        slow = await begin(client, upstream.origin)
        quick = await begin(client, upstream.origin)
        assert len(await body_of(quick)) == 300_000
        await until(lambda: len(slow.incoming) == 20_000)
        quick.end()
        assert upstream.calls[0].window == 0
        assert len(await body_of(slow)) == 300_000
        slow.close()


async def test_what_a_closed_stream_has_not_read_is_given_back_to_the_others() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(bytes(200_000), end=True)

    async with serving_h2(answer) as upstream, opened(stream_window=65535, connection_window=65535) as client:
        greedy = await begin(client, upstream.origin)
        await until(lambda: len(greedy.incoming) == 65535)
        other = await begin(client, upstream.origin)
        await other.status()
        assert not other.incoming
        greedy.close()
        assert len(await body_of(other)) == 200_000
        other.close()


async def test_data_on_its_way_to_a_closed_stream_is_given_back_too() -> None:
    async def answer(call: Call) -> None:
        if call.number == 1:
            await call.reset()
            call.peer.h2.outbound_flow_control_window -= 64_000
            call.peer.send_raw(frame(0x0, 0, 1, bytes(8000)) * 8)
            sent.set()
        else:
            call.respond()
            await call.say(bytes(100_000), end=True)

    sent = asyncio.Event()
    async with serving_h2(answer) as upstream, opened(stream_window=65535, connection_window=65535) as client:
        (await begin(client, upstream.origin)).close()
        await sent.wait()
        other = await begin(client, upstream.origin)
        assert len(await body_of(other)) == 100_000
        other.close()


async def test_padding_is_taken_off_and_given_back() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        for _ in range(1000):
            await call.peer.until(lambda: call.window > 256)
            call.peer.h2.send_data(call.number, b"x", pad_length=255)
            call.peer.flush()
        await call.say(b"", end=True)

    async with serving_h2(answer) as upstream, opened(stream_window=65535, connection_window=65535) as client:
        stream = await begin(client, upstream.origin)
        assert await body_of(stream) == b"x" * 1000
        stream.close()


async def test_a_small_message_does_not_wait_behind_a_large_one() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        while data := await call.read(hold=call.number == 1):
            order.append((call.number, len(data)))
        call.trail(("x", "y"))

    order: list[tuple[int, int]] = []
    async with serving_h2(answer) as upstream, opened() as client:
        large, small = await begin(client, upstream.origin), await begin(client, upstream.origin)
        sending = asyncio.create_task(large.send(bytes(100_000)))
        await until(lambda: large.sent == 65535)
        upstream.peers[0].h2.increment_flow_control_window(10)
        upstream.peers[0].flush()
        await small.send(b"small")
        small.end()
        assert await body_of(small) == b""
        sending.cancel()
    assert (small.number, 5) in order


# ── patience ──


async def test_an_upstream_that_does_not_answer_runs_into_the_first_byte_timeout() -> None:
    go = asyncio.Event()

    async def answer(call: Call) -> None:
        await go.wait()
        call.respond(201, end=True)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin, Timeouts(first_byte=0.02))
        with pytest.raises(PipeError) as caught:
            await stream.status()
        assert facts(caught.value) == ("first_byte", "timeout", True)
        go.set()
        await until(lambda: stream.code != 0)
        assert await stream.status() == 201
        stream.close()


async def test_how_long_silence_may_last_is_said_with_each_read() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin, Timeouts(idle=inf))
        await stream.status()
        for idle in (0.03, 0.01):
            with pytest.raises(PipeError) as caught:
                await stream.chunk(idle)
            assert facts(caught.value) == ("body", "timeout", True)
        waiting = asyncio.create_task(stream.chunk(inf))
        await stream.send(b"still here")
        assert await waiting == b"still here"
        stream.close()


async def test_a_timer_that_is_early_for_a_later_read_waits_on() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.send(b"1")
        assert await stream.chunk(0.5) == b"1"
        reading = asyncio.create_task(stream.chunk(WAIT))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading), 0.6)
        await stream.send(b"2")
        assert await reading == b"2"
        stream.close()


async def test_timers_that_are_no_longer_needed_harm_nobody() -> None:
    async def answer(call: Call) -> None:
        await call.read(hold=True)
        call.peer.h2.increment_flow_control_window(10, call.number)
        call.respond()
        await call.say(b"answer")
        await call.read_all()
        await call.say(b"end", end=True)

    async with serving_h2(answer, window=10) as upstream, opened() as client:
        stream = await begin(client, upstream.origin, Timeouts(idle=0.5))
        await until(lambda: bool(upstream.calls))
        await stream.send(bytes(20))
        assert await stream.chunk() == b"answer"
        with pytest.raises(PipeError):
            await (await begin(client, upstream.origin)).chunk(0.6)
        stream.end()
        assert await stream.chunk(WAIT) == b"end"


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.status()
        reading = asyncio.create_task(stream.chunk())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader"):
            await stream.chunk()
        await stream.send(b"kept")
        await until(lambda: bool(stream.incoming))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await stream.chunk() == b"kept"
        stream.close()


async def test_an_upstream_that_takes_nothing_fails_the_stream() -> None:
    async with serving_h2(hold, window=0) as upstream, opened() as client:
        stream = await begin(client, upstream.origin, Timeouts(idle=0.03))
        await until(lambda: bool(upstream.peers and upstream.peers[0].calls))
        first, second = asyncio.create_task(stream.send(b"a")), asyncio.create_task(stream.send(b"b"))
        errors = await asyncio.gather(first, second, return_exceptions=True)
        assert [facts(error) for error in errors if isinstance(error, PipeError)] == [("send", "timeout", True)] * 2
        assert await upstream.calls[0].reset() == ErrorCodes.CANCEL


async def test_an_upstream_that_takes_a_little_now_and_then_does_not_fail_the_stream() -> None:
    async def answer(call: Call) -> None:
        loop = asyncio.get_running_loop()
        enough = loop.time() + 0.25
        while loop.time() < enough:
            call.peer.h2.increment_flow_control_window(1, call.number)
            call.peer.flush()
            await asyncio.sleep(0)
        call.peer.h2.increment_flow_control_window(1 << 20, call.number)
        call.respond(200, end=True)
        await call.read_all()

    async with serving_h2(answer, window=0) as upstream, opened() as client:
        stream = await begin(client, upstream.origin, Timeouts(idle=0.1))
        await until(lambda: bool(upstream.calls))
        await stream.send(bytes(1 << 20))
        stream.end()
        assert await stream.status() == 200
