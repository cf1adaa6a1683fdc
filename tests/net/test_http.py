"""One exchange with an upstream: what goes out, how answers are framed, and every way they can go wrong."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.net.upstream import OK, WAIT, Peer, answering, saying, serving, until
from tieline.net.client.http import HttpClient, HttpResponse, Origin, PipeError, Timeouts

PATIENT = Timeouts()
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


async def get(client: HttpClient, origin: Origin, timeouts: Timeouts = PATIENT, method: str = "GET") -> HttpResponse:
    async with asyncio.timeout(WAIT):
        return await client.send(origin, method, "/", (), timeouts=timeouts)


async def body_of(response: HttpResponse) -> bytes:
    async with asyncio.timeout(WAIT):
        return await response.read(1 << 30)


async def failure(client: HttpClient, origin: Origin, timeouts: Timeouts = PATIENT) -> PipeError:
    """The error of an exchange, whether it comes with the head or with the body."""
    with pytest.raises(PipeError) as caught:
        await body_of(await get(client, origin, timeouts))
    return caught.value


# ── what goes out ──


async def test_a_request_is_written_with_host_length_and_identity_encoding(client: HttpClient) -> None:
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.request())
        await peer.say(OK)

    async with serving(script) as upstream:
        await body_of(await client.send(upstream.origin, "POST", "/v1/x?y=1", [("Accept", "a/b")], b"{}"))
    assert heard == [
        b"POST /v1/x?y=1 HTTP/1.1\r\nhost: %s\r\naccept: a/b\r\n"
        b"accept-encoding: identity\r\ncontent-length: 2\r\n\r\n{}" % upstream.origin.authority.encode()
    ]


async def test_the_encodings_a_caller_accepts_are_not_overwritten(client: HttpClient) -> None:
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.request())
        await peer.say(OK)

    async with serving(script) as upstream:
        await body_of(await client.send(upstream.origin, "GET", "/", [("Accept-Encoding", "gzip")]))
    assert heard[0].count(b"accept-encoding") == 1
    assert b"content-length" not in heard[0]


@pytest.mark.parametrize(
    ("method", "path", "headers", "complaint"),
    [
        ("GET", "/", [("x-key", "secret\r\nx-evil: 1")], "'x-key' contains a control character"),
        ("GET", "/", [("x-key", "secret\n")], "'x-key' contains a control character"),
        ("GET", "/", [("x-key", "secret→")], "'x-key' contains a character outside latin-1"),
        ("GET", "/", [("x key", "1")], "not a header name"),
        ("GET", "/", [("", "1")], "not a header name"),
        ("GET", "/", [("Content-Length", "1")], "set by the HTTP client itself"),
        ("GET", "/a b", [], "a request path"),
        ("GET", "/a\r\nx: y", [], "a request path"),
        ("GET", "v1", [], "a request path"),
        ("GET /", "/", [], "not an HTTP method"),
    ],
)
async def test_what_cannot_be_written_down_is_refused_without_repeating_it(
    client: HttpClient, method: str, path: str, headers: list[tuple[str, str]], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        await client.send(Origin("http", "127.0.0.1", 1), method, path, headers)
    assert "secret" not in str(caught.value)


async def test_header_values_may_be_latin_1(client: HttpClient) -> None:
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.request())
        await peer.say(OK)

    async with serving(script) as upstream:
        await body_of(await client.send(upstream.origin, "GET", "/", [("x-name", "J\xfcrgen\tM")]))
    assert b"x-name: J\xfcrgen\tM\r\n" in heard[0]


async def test_a_large_body_arrives_whole(client: HttpClient) -> None:
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.request())
        await peer.say(OK)
        heard.append(await peer.request())
        await peer.say(OK)

    body = bytes(range(256)) * 16384
    async with serving(script) as upstream:
        for _ in range(2):
            await body_of(await client.send(upstream.origin, "POST", "/", (), body))
    assert [request.partition(b"\r\n\r\n")[2] == body for request in heard] == [True, True]
    assert upstream.connections == 1


async def test_an_upstream_may_refuse_a_large_body_before_it_has_read_it(client: HttpClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 No\r\ncontent-length: 3\r\n\r\nbig")
        await peer.hung_up()

    async with serving(script) as upstream:
        response = await client.send(upstream.origin, "POST", "/", (), bytes(64 << 20))
        assert (response.status, await body_of(response)) == (413, b"big")


async def test_an_upstream_that_takes_no_more_of_a_body_is_a_timeout_of_the_send_phase(client: HttpClient) -> None:
    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport, in both loops
        await released.wait()

    released = asyncio.Event()
    async with serving(script) as upstream:
        with pytest.raises(PipeError) as caught:
            await client.send(upstream.origin, "POST", "/", (), bytes(64 << 20), Timeouts(idle=0.05))
        released.set()
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("send", "timeout", True)


# ── how answers are framed ──

FRAMINGS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello", b"hello"),
    "chunked": (CHUNKED + b"2\r\nhe\r\n3;ext=1\r\nllo\r\n0\r\nx-trailer: 1\r\n\r\n", b"hello"),
    "until close": (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    "until close, 1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", b""),
    "early hints": (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK, b"ok"),
    "advertised upgrade": (
        b"HTTP/1.1 200 OK\r\nupgrade: h2\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok",
        b"ok",
    ),
}


@pytest.mark.parametrize(("answer", "body"), FRAMINGS.values(), ids=FRAMINGS.keys())
async def test_a_body_ends_where_its_head_says(client: HttpClient, answer: bytes, body: bytes) -> None:
    async with serving(saying(answer)) as upstream:
        assert await body_of(await get(client, upstream.origin)) == body


@pytest.mark.parametrize(("answer", "body"), FRAMINGS.values(), ids=FRAMINGS.keys())
async def test_a_body_is_the_same_when_it_comes_byte_by_byte(client: HttpClient, answer: bytes, body: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say_each_byte(answer)

    async with serving(script) as upstream:
        assert await body_of(await get(client, upstream.origin)) == body


async def test_header_names_are_lower_case_and_repeated_fields_are_kept(client: HttpClient) -> None:
    async with serving(answering(FRAMINGS["length"][0])) as upstream:
        response = await get(client, upstream.origin)
        assert list(response.headers) == [("content-length", "5"), ("x-a", "1"), ("x-a", "2")]
        assert (response.header("x-a"), response.header("x-b")) == ("1", None)
        response.close()
        await client.aclose()


async def test_trailers_are_not_header_fields(client: HttpClient) -> None:
    async with serving(answering(FRAMINGS["chunked"][0])) as upstream:
        response = await get(client, upstream.origin)
        await body_of(response)
        assert list(response.headers) == [("transfer-encoding", "chunked")]
        await client.aclose()


async def test_a_head_request_has_no_body_and_keeps_its_connection(client: HttpClient) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"
    async with serving(answering(head, OK, head)) as upstream:
        assert await body_of(await get(client, upstream.origin, method="HEAD")) == b""
        assert await body_of(await get(client, upstream.origin)) == b"ok"
        assert await body_of(await get(client, upstream.origin, method="HEAD")) == b""
        assert upstream.connections == 1
        await client.aclose()


async def test_chunk_gives_what_has_arrived_and_then_the_end(client: HttpClient) -> None:
    more = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n1\r\nb\r\n")
        await more.wait()
        await peer.say(b"1\r\nc\r\n0\r\n\r\n")
        await peer.hung_up()

    async with serving(script) as upstream:
        response = await get(client, upstream.origin)
        first = await response.chunk()
        while first != b"ab":
            first += await response.chunk()
        more.set()
        assert [await response.chunk(), await response.chunk(), await response.chunk()] == [b"c", b"", b""]
        await client.aclose()


async def test_a_fast_upstream_is_held_back_until_the_reader_takes(client: HttpClient) -> None:
    size = 64 << 20

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        peer.writer.write(bytes(size))
        stuck.set()
        await peer.writer.drain()
        drained.set()

    stuck, drained = asyncio.Event(), asyncio.Event()
    async with serving(script) as upstream:
        response = await get(client, upstream.origin)
        await stuck.wait()
        await until(lambda: response.buffered > 256 * 1024)
        held = response.buffered
        assert len(await body_of(response)) == size
        await drained.wait()
    assert held < 1 << 20


async def test_read_stops_at_its_limit_and_drops_the_connection(client: HttpClient) -> None:
    dropped = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"6\r\nabcdef\r\n")
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream:
        response = await get(client, upstream.origin)
        with pytest.raises(PipeError) as caught:
            await response.read(5)
        await dropped.wait()
    assert (caught.value.phase, caught.value.reason) == ("body", "too_large")


# ── how they go wrong ──

BROKEN = {
    "not http": (b"SSH-2.0-OpenSSH\r\n", "first_byte", "protocol"),
    "bad status": (b"HTTP/1.1 abc\r\n\r\n", "first_byte", "protocol"),
    "bad chunk": (CHUNKED + b"zz\r\n", "body", "protocol"),
    "two lengths": (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "first_byte", "protocol"),
    "other encoding": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nab", "first_byte", "protocol"),
    "upgrade": (
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        "first_byte",
        "protocol",
    ),
    "bare 101": (b"HTTP/1.1 101 Switching\r\n\r\n", "first_byte", "protocol"),
    "nothing": (b"", "first_byte", "reset"),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-", "first_byte", "reset"),
    "half a length": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel", "body", "reset"),
    "half a chunk": (CHUNKED + b"5\r\nhel", "body", "reset"),
    "no last chunk": (CHUNKED + b"3\r\nhel\r\n", "body", "reset"),
    "endless head": (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000, "first_byte", "too_large"),
    "endless trailer": (CHUNKED + b"1\r\na\r\n0\r\nx: ", "body", "too_large"),
}


@pytest.mark.parametrize(("answer", "phase", "reason"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_answer_is_an_error_and_never_a_silent_end(
    client: HttpClient, answer: bytes, phase: str, reason: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)
        if answer.endswith(b"0\r\nx: "):
            await peer.flood(b"x" * 100_000)

    async with serving(script) as upstream:
        error = await failure(client, upstream.origin)
    assert (error.phase, error.reason, error.sent) == (phase, reason, True)
    assert upstream.origin.authority in error.message


async def test_what_came_before_a_failure_is_read_first(client: HttpClient) -> None:
    async with serving(saying(CHUNKED + b"3\r\nhel\r\n")) as upstream:
        response = await get(client, upstream.origin)
        assert await response.chunk() == b"hel"
        for _ in range(2):
            with pytest.raises(PipeError):
                await response.chunk()


async def test_nobody_listening_is_refused_and_nothing_was_sent(client: HttpClient) -> None:
    async with serving(answering()) as upstream:
        origin = upstream.origin
    error = await failure(client, origin)
    assert (error.phase, error.reason, error.sent) == ("connect", "refused", False)
    assert origin.authority in error.message


async def test_a_name_that_does_not_resolve_is_a_dns_failure(client: HttpClient) -> None:
    error = await failure(client, Origin("http", "nothing.invalid", 80))
    assert (error.phase, error.reason, error.sent) == ("connect", "dns", False)


async def test_a_silent_upstream_is_a_timeout_of_the_first_byte(client: HttpClient) -> None:
    async with serving(answering(b"")) as upstream:
        error = await failure(client, upstream.origin, Timeouts(first_byte=0.05))
    assert (error.phase, error.reason, error.sent) == ("first_byte", "timeout", True)


async def test_a_head_that_trickles_does_not_extend_its_timeout(client: HttpClient) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nx: ")
        while not await peer.hung_up_within(0.01):
            await peer.say(b"x")

    async with serving(script) as upstream:
        error = await failure(client, upstream.origin, Timeouts(first_byte=0.08))
    assert (error.phase, error.reason) == ("first_byte", "timeout")


async def test_silence_inside_a_body_is_a_timeout(client: HttpClient) -> None:
    async with serving(answering(CHUNKED + b"1\r\na\r\n")) as upstream:
        error = await failure(client, upstream.origin, Timeouts(idle=0.05))
    assert (error.phase, error.reason, error.sent) == ("body", "timeout", True)


async def test_every_byte_starts_the_idle_timeout_anew(client: HttpClient) -> None:
    """Ours: even a byte that is no part of the body, such as one of a chunk's size, shows that the upstream lives."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED)
        for byte in b"0000001\r\na\r\n0\r\n\r\n":
            assert not await peer.hung_up_within(0.07)
            await peer.say(bytes([byte]))

    async with serving(script) as upstream:
        response = await get(client, upstream.origin, Timeouts(idle=1.0))
        assert await body_of(response) == b"a"


async def test_a_slow_reader_is_no_idle_upstream(client: HttpClient) -> None:
    """Ours: idle time counts only while somebody waits, or a client that reads slowly would break its own response."""
    more = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        assert not await peer.hung_up_within(0.1)
        await peer.say(b"1\r\nb\r\n0\r\n\r\n")
        more.set()

    async with serving(script) as upstream:
        response = await get(client, upstream.origin, Timeouts(idle=0.03))
        assert await response.chunk() == b"a"
        await more.wait()
        assert await body_of(response) == b"b"


# ── closing and cancelling ──


async def test_closing_a_response_early_hangs_up_at_once(client: HttpClient) -> None:
    dropped = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream:
        response = await get(client, upstream.origin)
        response.close()
        response.close()
        async with asyncio.timeout(WAIT):
            await dropped.wait()
        with pytest.raises(PipeError, match="closed by its reader"):
            await response.chunk()


async def test_closing_a_response_that_has_arrived_keeps_the_connection(client: HttpClient) -> None:
    async with serving(answering(OK, OK)) as upstream:
        response = await get(client, upstream.origin)
        await until(lambda: response.chunks == [b"ok"])
        response.close()
        assert await body_of(await get(client, upstream.origin)) == b"ok"
        assert upstream.connections == 1
        await client.aclose()


@pytest.mark.parametrize("said", [b"", CHUNKED, CHUNKED + b"1\r\na\r\n"], ids=["head", "first chunk", "next chunk"])
async def test_a_cancelled_reader_takes_its_connection_with_it(client: HttpClient, said: bytes) -> None:
    waiting, dropped = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        waiting.set()
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream:
        task = asyncio.create_task(failure(client, upstream.origin))
        async with asyncio.timeout(WAIT):
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await dropped.wait()


async def test_a_cancelled_upload_takes_its_connection_with_it(client: HttpClient) -> None:
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readexactly(1)
        begun.set()
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream:
        task = asyncio.create_task(client.send(upstream.origin, "POST", "/", (), bytes(256 << 20)))
        async with asyncio.timeout(WAIT):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await dropped.wait()


async def test_a_response_has_one_reader_at_a_time(client: HttpClient) -> None:
    async with serving(answering(CHUNKED)) as upstream:
        response = await get(client, upstream.origin)
        first = asyncio.create_task(response.chunk())
        await until(lambda: response.is_awaited)
        with pytest.raises(RuntimeError, match="one reader"):
            await response.chunk()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
