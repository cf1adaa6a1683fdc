"""Who waits for whom: full buffers on either side, clients that leave or dawdle, and the end of the server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from tests.net.served import WAIT, Client, Served, config, echo, respond, served, whole_body
from tests.net.upstream import until
from tieline.net.server import connection, protocol
from tieline.net.server.protocol import HttpServerProtocol

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
HEAD = b"POST /p HTTP/1.1\r\nHost: here\r\n"
MIB = 1024 * 1024
BIG = 16 * MIB
"""More than the sockets between two ends of one machine hold."""


async def start(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})


async def more(send: Any, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})


class Gate:
    """An application that does the next thing when it is told to, and remembers what it heard."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()
        self.heard: list[Any] = []


# ── Bodies of requests ───────────────────────────────────────────────────────────────────────────


async def test_a_large_body_waits_outside_until_the_application_takes_it() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        gate.entered.set()
        await gate.opened.wait()
        size = 0
        while (message := await receive())["more_body"]:
            gate.heard.append(len(message["body"]))
            size += len(message["body"])
        await respond(send, b"%d" % (size + len(message["body"])))

    async with served(app) as server:
        client = await server.connect(HEAD + b"Content-Length: %d\r\n\r\n" % BIG)
        await gate.entered.wait()
        saying = asyncio.create_task(client.say(BIG * b"x"))
        await until(lambda: server.connection._is_read_paused)
        held = server.connection._current
        assert held is not None
        assert sum(map(len, held.chunks)) < MIB
        assert not saying.done()
        gate.opened.set()
        assert (await client.response()).body == b"%d" % BIG
        await saying
    assert max(gate.heard) < MIB


async def test_tiny_chunks_wait_outside_too() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await gate.opened.wait()
        await respond(send, b"%d" % len(await whole_body(receive) or b""))

    async with served(app) as server:
        client = await server.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        saying = asyncio.create_task(client.say(50_000 * b"1\r\nx\r\n" + b"0\r\n\r\n"))
        await until(lambda: server.connection._is_read_paused)
        gate.opened.set()
        assert (await client.response()).body == b"50000"
        await saying


@pytest.mark.parametrize(
    "framing", [b"Content-Length: %d\r\n\r\n" % MIB, b"Transfer-Encoding: chunked\r\n\r\n100000\r\n"]
)
async def test_a_body_nobody_wanted_is_read_to_its_end_and_the_connection_goes_on(framing: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, scope["path"].encode(), 401)

    async with served(app) as server:
        client = await server.connect(HEAD + framing)
        assert (await client.response()).status == 401
        await client.say(MIB * b"x" + (b"\r\n0\r\n\r\n" if b"chunked" in framing else b""))
        await client.say(GET)
        assert (await client.response()).body == b"/"
        assert server.state.total_requests == 2


async def test_a_body_nobody_wanted_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_DISCARD", MIB)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no", 401)

    async with served(app) as server:
        client = await server.connect(HEAD + b"Content-Length: %d\r\n\r\n" % (1024 * BIG))
        assert (await client.response()).status == 401
        said = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(WAIT):
                while said < 1024 and not client.reader.at_eof():
                    await client.say(MIB * b"x")
                    said += 1
        assert said < 1024


async def test_a_response_that_closes_before_the_body_came_is_heard_all_the_same() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no", 401, (b"connection", b"close"))

    async with served(app) as server:
        client = await server.connect(HEAD + b"Content-Length: %d\r\n\r\n" % (8 * MIB))
        await client.say(8 * MIB * b"x")  # like most clients: all of the body first
        assert (await client.response()).status == 401
        assert await client.rest() == b""


# ── Expect: 100-continue ─────────────────────────────────────────────────────────────────────────

EXPECTING = HEAD + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"


async def test_who_asks_whether_to_go_on_is_told_when_the_application_wants_the_body() -> None:
    async with served(echo) as server:
        client = await server.connect(EXPECTING)
        assert (await client.head()) == (100, {})
        await client.say(b"hello" + GET)
        assert (await client.response()).heard["body"] == "hello"
        assert (await client.response()).status == 200


async def test_who_does_not_wait_for_the_word_needs_none() -> None:
    async with served(echo) as server:
        client = await server.connect(EXPECTING + b"hello" + GET)
        assert (await client.response()).heard["body"] == "hello"
        assert (await client.response()).status == 200


async def test_after_an_answer_instead_of_the_word_nothing_is_taken_for_a_request() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no", 401)

    async with served(app) as server:
        client = await server.connect(EXPECTING)
        response = await client.response()
        assert (response.status, response.headers["connection"]) == (401, "close")
        await client.say(GET)
        assert await client.rest() == b""
        assert server.state.total_requests == 1


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


async def test_a_client_that_does_not_read_holds_up_the_application_and_little_is_kept() -> None:
    written = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal written
        await start(send)
        for _ in range(BIG // 65536):
            await more(send, 65536 * b"x")
            written += 65536
        await more(send, b"", last=True)

    async with served(app) as server:
        client = await server.connect(GET)
        await client.head()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a stream reads as well
        await until(lambda: server.connection.is_write_paused)
        held = server.connection.transport.get_write_buffer_size()
        assert held < MIB
        assert written < BIG
        client.writer.transport.resume_reading()  # type: ignore[attr-defined] # as above
        assert len(await client._chunks()) == BIG


async def test_a_client_that_leaves_frees_who_waits_to_write() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        for _ in range(2 * BIG // 65536):
            await more(send, 65536 * b"x")
        gate.entered.set()

    async with served(app) as server:
        client = await server.connect(GET)
        await client.head()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a stream reads as well
        await until(lambda: server.connection.is_write_paused)
        client.leave()
        async with asyncio.timeout(WAIT):
            await gate.entered.wait()


async def test_who_is_cancelled_while_it_waits_to_write_is_out_of_the_way() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await more(send, BIG * b"x")
        waiting = asyncio.create_task(more(send, b"never"))
        gate.entered.set()
        await gate.opened.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        await more(send, b"last", last=True)

    async with served(app) as server:
        client = await server.connect(GET)
        await client.head()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a stream reads as well
        await gate.entered.wait()
        gate.opened.set()
        client.writer.transport.resume_reading()  # type: ignore[attr-defined] # as above
        assert await client._chunks() == BIG * b"x" + b"last"


# ── Clients that leave ───────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def listening(said: bytes) -> AsyncIterator[tuple[Served, Client, Gate]]:
    """An application that begins to answer and then waits for its client to leave."""
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await more(send, b"begun")
        gate.entered.set()
        while (message := await receive())["type"] != "http.disconnect":
            gate.heard.append(message)
        await more(send, b"to nobody")
        gate.heard.append(await receive())
        gate.opened.set()

    async with served(app) as server:
        client = await server.connect(said)
        await gate.entered.wait()
        yield server, client, gate


@pytest.mark.parametrize("said", [GET, HEAD + b"Content-Length: 9\r\n\r\nhal"])
@pytest.mark.parametrize("politely", [True, False])
async def test_a_client_that_leaves_is_told_to_the_application(said: bytes, politely: bool) -> None:
    async with listening(said) as (server, client, gate):
        if politely:
            client.writer.close()
        else:
            client.leave()
        async with asyncio.timeout(WAIT):
            await gate.opened.wait()
        assert gate.heard[-1] == {"type": "http.disconnect"}
        await until(lambda: not server.state.connections and not server.state.tasks)


async def test_the_end_of_a_response_is_told_to_who_still_listens() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole_body(receive)
        listeners = [asyncio.create_task(receive()) for _ in range(2)]
        await asyncio.sleep(0)
        await respond(send, b"done")
        heard.extend(await asyncio.gather(*listeners))

    async with served(app) as server:
        client = await server.connect(GET)
        assert (await client.response()).body == b"done"
        await until(lambda: len(heard) == 2)
        assert heard == 2 * [{"type": "http.disconnect"}]


async def test_a_late_listener_does_not_take_what_belongs_to_the_next_request() -> None:
    late: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/p":
            await respond(send, (await late[0]())["type"].encode() + b" " + (await whole_body(receive) or b""))
        else:
            late.append(receive)
            await respond(send, b"first")

    async with served(app) as server:
        client = await server.connect(GET)
        assert (await client.response()).body == b"first"
        await client.say(HEAD + b"Content-Length: 5\r\n\r\nhello")
        assert (await client.response()).body == b"http.disconnect hello"


# ── Clients that dawdle ──────────────────────────────────────────────────────────────────────────


async def test_a_resting_connection_is_closed_after_a_while() -> None:
    async with served(echo, idle=1) as server:
        client = await server.connect(GET)
        assert (await client.response()).status == 200
        assert await client.rest() == b""


async def test_a_connection_that_never_says_anything_is_closed_too() -> None:
    async with served(echo, idle=1) as server:
        assert await (await server.connect()).rest() == b""


async def test_a_head_that_does_not_come_to_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT", 0.2)
    async with served(echo) as server:
        client = await server.connect(GET[:-2])
        await until(lambda: server.connection._unparsed > 0)
        with contextlib.suppress(ConnectionError):
            await client.say(b"X: y\r\n")  # a sign of life now and then does not help
        assert (await client.response()).status == 408
        assert await client.rest() == b""


async def test_a_body_that_stops_in_the_middle_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_TIMEOUT", 0.2)
    async with served(echo) as server:
        client = await server.connect(HEAD + b"Content-Length: 9\r\n\r\nhal")
        assert (await client.response()).status == 408
        assert await client.rest() == b""


@pytest.mark.parametrize(
    "said", [b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 500000\r\n\r\n" + 500_000 * b"x"]
)
async def test_an_application_may_take_its_time(said: bytes) -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        gate.entered.set()
        await gate.opened.wait()
        await respond(send, b"%d" % len(await whole_body(receive) or b""))

    async with served(app) as server:
        client = await server.connect()
        client.writer.write(HEAD + said)
        await gate.entered.wait()
        await until(lambda: server.connection._incoming is None or server.connection._is_read_paused)
        server.connection._waiting_since -= 1000.0  # seconds that have passed
        server.connection._check_timeout()
        gate.opened.set()
        assert (await client.response()).status == 200


async def test_a_body_nobody_wanted_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "DISCARD_TIMEOUT", 0.1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no", 401)

    async with served(app) as server:
        client = await server.connect(HEAD + b"Content-Length: 9\r\n\r\nhal")
        assert (await client.response()).status == 401
        assert await client.rest() == b""


async def test_last_words_that_nobody_takes_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_TIMEOUT", 0.1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, BIG * b"x", 200, (b"connection", b"close"))

    async with served(app) as server:
        client = await server.connect(GET)
        await client.head()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport of a stream reads as well
        await until(lambda: not server.state.connections)


async def test_who_was_refused_and_talks_on_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_TIMEOUT", 0.1)
    async with served(echo) as server:
        client = await server.connect(b"nonsense\r\n\r\n")
        assert (await client.response()).status == 400
        await until(lambda: not server.state.connections)


# ── The end of the server ────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def running(app: Any) -> AsyncIterator[tuple[uvicorn.Server, int, asyncio.Task[None]]]:
    made = config(app, 75)
    made.http_protocol_class = HttpServerProtocol
    made.port = 0
    server = uvicorn.Server(made)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment] # signals are not for tests
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started or task.done())
    try:
        yield server, server.servers[0].sockets[0].getsockname()[1], task
    finally:
        server.should_exit = server.force_exit = True
        async with asyncio.timeout(WAIT):
            await task


async def connect(port: int, said: bytes) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    await client.say(said)
    return client


async def test_a_server_that_ends_closes_who_rests_and_waits_for_who_is_served() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/p":
            gate.entered.set()
            await gate.opened.wait()
        await respond(send, scope["path"].encode())

    async with running(app) as (server, port, task):
        resting = await connect(port, GET)
        assert (await resting.response()).body == b"/"
        silent = await connect(port, GET[:5])
        busy = await connect(port, HEAD + b"\r\n" + GET)
        await gate.entered.wait()
        server.should_exit = True
        assert await resting.rest() == b""
        assert await silent.rest() == b""
        assert not task.done()
        gate.opened.set()
        response = await busy.response()
        assert (response.body, response.headers["connection"]) == (b"/p", "close")
        assert await busy.rest() == b""
        async with asyncio.timeout(WAIT):
            await task
        for client in (resting, silent, busy):
            client.leave()


async def test_a_server_that_cannot_wait_cancels_what_is_left() -> None:
    gate = Gate()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            gate.entered.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await respond(send, b"the server ends", 503)

    async with running(app) as (server, port, task):
        server.config.timeout_graceful_shutdown = 1
        client = await connect(port, GET)
        await gate.entered.wait()
        server.should_exit = True
        assert (await client.response()).status == 503
        assert await client.rest() == b""
        async with asyncio.timeout(WAIT):
            await task
        assert server.server_state.total_requests == 1
        client.leave()
