"""How two-way streams end before their time: closed here, reset there, cut off, or broken by nonsense."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from h2.errors import ErrorCodes

from tests.each import each
from tests.net.h2_server import Call, H2Peer, begin, body_of, echo, facts, frame, hold, serving_h2
from tests.net.upstream import WAIT, until
from tieline.net.h2.client import Http2Client, PipeError


@asynccontextmanager
async def opened(stream_window: int = 1024 * 1024) -> AsyncIterator[Http2Client]:
    client = Http2Client(stream_window=stream_window)
    try:
        async with asyncio.timeout(WAIT):
            yield client
    finally:
        await client.aclose()


async def test_closing_a_stream_cancels_it_and_tells_everybody() -> None:
    async with serving_h2(hold, window=10) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: bool(upstream.calls))
        reading, sending = asyncio.create_task(stream.status()), asyncio.create_task(stream.send(bytes(20)))
        await until(lambda: stream.sent == 10)
        stream.close()
        stream.close()
        errors = await asyncio.gather(reading, sending, return_exceptions=True)
        assert [facts(error) for error in errors if isinstance(error, PipeError)] == [("first_byte", "reset", True)] * 2
        assert await upstream.calls[0].reset() == ErrorCodes.CANCEL
        for late in (stream.chunk(), stream.send(b"x"), stream.status()):
            with pytest.raises(PipeError, match="closed by the gateway"):
                await late
        stream.end()


async def test_closing_a_stream_forgets_what_was_not_read() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(b"unread", end=True)
        await call.reset()

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: stream.is_over)
        stream.close()
        with pytest.raises(PipeError, match="closed by the gateway"):
            await stream.chunk()


@each(
    ("code", "expected", "words"),
    [
        (ErrorCodes.INTERNAL_ERROR, ("first_byte", "reset", True), "internal error"),
        (ErrorCodes.CANCEL, ("first_byte", "reset", True), "cancel"),
        (ErrorCodes.NO_ERROR, ("first_byte", "reset", True), "no error"),
        (ErrorCodes.REFUSED_STREAM, ("first_byte", "refused", False), "refused stream"),
        (ErrorCodes.HTTP_1_1_REQUIRED, ("connect", "protocol", False), "HTTP/1.1"),
        (4242, ("first_byte", "reset", True), "unknown error 4242"),
    ],
)
async def test_a_stream_that_is_reset_says_why(code: int, expected: tuple[str, str, bool], words: str) -> None:
    async def answer(call: Call) -> None:
        await call.read()
        call.refuse(code)

    async with serving_h2(answer) as upstream, opened() as client:
        stream, other = await begin(client, upstream.origin), await begin(client, upstream.origin)
        await stream.send(b"x")
        with pytest.raises(PipeError, match=words) as caught:
            await stream.status()
        with pytest.raises(PipeError):
            await stream.send(b"y")
        assert facts(caught.value) == expected
        assert upstream.origin.authority in caught.value.message
        assert other.error is None
        other.close()


async def test_a_reset_after_part_of_a_body_comes_after_that_part() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(b"part")
        call.refuse(ErrorCodes.INTERNAL_ERROR)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: stream.error is not None)
        assert await stream.chunk() == b"part"
        with pytest.raises(PipeError) as caught:
            await stream.chunk()
    assert facts(caught.value) == ("body", "reset", True)


async def test_a_reset_after_a_whole_response_spoils_only_the_request() -> None:
    async def answer(call: Call) -> None:
        call.respond()
        await call.say(b"whole", end=True)
        call.refuse(ErrorCodes.NO_ERROR)

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: stream.error is not None)
        with pytest.raises(PipeError):
            await stream.send(b"more")
        assert (await stream.status(), await body_of(stream)) == (200, b"whole")


async def test_a_connection_that_is_cut_fails_every_stream_on_it() -> None:
    async def answer(call: Call) -> None:
        if call.number == 1:
            call.respond()
            await call.say(b"part")
        else:
            await call.read()
            call.peer.cut()

    async with serving_h2(answer) as upstream, opened() as client:
        first = await begin(client, upstream.origin)
        assert await first.chunk() == b"part"
        second = await begin(client, upstream.origin)
        await second.send(b"cut")
        for stream, phase in ((first, "body"), (second, "first_byte")):
            with pytest.raises(PipeError, match="closed the connection") as caught:
                await stream.chunk()
            assert facts(caught.value) == (phase, "reset", True)
            with pytest.raises(PipeError):
                await stream.send(b"x")
            stream.end()
            stream.close()


async def test_a_response_without_a_proper_status_breaks_the_stream() -> None:
    async def answer(call: Call) -> None:
        call.peer.h2.send_headers(call.number, [(":status", "fine")])
        call.peer.flush()
        await call.reset()

    async with serving_h2(answer) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        with pytest.raises(PipeError, match="without a status") as caught:
            await stream.status()
    assert facts(caught.value) == ("first_byte", "protocol", True)


async def test_data_before_the_head_breaks_the_stream_and_no_other() -> None:
    async def answer(call: Call) -> None:
        if call.number == 1:
            call.peer.send_raw(frame(0x0, 0, 1, b"body"))
            await call.reset()
        else:
            await echo(call)

    async with serving_h2(answer) as upstream, opened() as client:
        broken, sound = await begin(client, upstream.origin), await begin(client, upstream.origin)
        with pytest.raises(PipeError, match="before the head") as caught:
            await broken.chunk()
        await sound.send(b"fine")
        assert await sound.chunk() == b"fine"
        sound.close()
    assert facts(caught.value) == ("first_byte", "protocol", True)
    assert upstream.calls[0].reset_code == ErrorCodes.PROTOCOL_ERROR


@each(
    "nonsense",
    [
        pytest.param(frame(0x0, 0, 99, b"x"), id="data of a stream nobody opened"),
        pytest.param(frame(0x0, 0, 2, b"x"), id="data of a stream of the server"),
        pytest.param(frame(0x0, 0, 0, b"x"), id="data of no stream"),
        pytest.param(frame(0x0, 8, 1, b"\x09x"), id="more padding than bytes"),
        pytest.param(frame(0x0, 8, 1, b""), id="padding of no bytes"),
        pytest.param(frame(0x0, 0, 1, bytes(16384)) * 5, id="more than the window"),
        pytest.param(frame(0x0, 0, 1, bytes(16385)), id="too large a frame"),
        pytest.param(frame(0x1, 4, 1, b"\xff\xff\xff\xff\xff\xff"), id="broken header compression"),
        pytest.param(frame(0x1, 4, 1, b"\x88"), id="trailers that are not the end"),
        pytest.param(frame(0x1, 0, 1, b"\x88") + frame(0x6, 0, 0, bytes(8)), id="a ping inside a header block"),
        pytest.param(frame(0x3, 0, 0, bytes(4)), id="a reset of no stream"),
        pytest.param(frame(0x4, 0, 0, b"\x00\x04\xff\xff\xff\xff"), id="a window that is too large"),
        pytest.param(frame(0x4, 0, 0, b"\x00"), id="half a setting"),
        pytest.param(frame(0x5, 4, 1, b"\x00\x00\x00\x02\x88"), id="a push"),
        pytest.param(frame(0x6, 0, 0, b"short"), id="a short ping"),
        pytest.param(frame(0x7, 0, 0, b"short"), id="a short goodbye"),
        pytest.param(frame(0x8, 0, 0, bytes(4)), id="a window of nothing"),
        pytest.param(frame(0x9, 4, 1, b"\x88"), id="a continuation of nothing"),
    ],
)
async def test_a_peer_that_breaks_the_rules_is_left(nonsense: bytes) -> None:
    peers: list[H2Peer] = []

    async def answer(call: Call) -> None:
        call.respond()
        await call.read()
        peers.append(call.peer)
        call.peer.send_raw(nonsense)

    async with serving_h2(answer) as upstream, opened(stream_window=65535) as client:
        stream = await begin(client, upstream.origin)
        await stream.status()
        await stream.send(b"now")
        await until(lambda: stream.error is not None)
        with pytest.raises(PipeError, match="violated the HTTP/2 protocol") as caught:
            await body_of(stream)
        assert facts(caught.value) == ("body", "protocol", True)
        await until(lambda: peers[0].is_gone)
