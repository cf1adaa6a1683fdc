"""Many requests on one connection, often with the same head: each is answered as if it were the first."""

import asyncio
from typing import Any

import pytest
from uvicorn.server import ServerState

from tests.each import each
from tests.net.served import Wire, config, echo, respond, served, whole_body
from tests.net.upstream import until
from tieline.net.server import protocol
from tieline.net.server.cycle import RequestCycle
from tieline.net.server.protocol import HttpServerProtocol

SPELLINGS = (b"Content-Length", b"content-length")


def post(body: bytes, more: bytes = b"", name: bytes = b"Content-Length", path: bytes = b"/p") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: here\r\n%b%b: %d\r\nAccept: */*\r\n\r\n%b" % (path, more, name, len(body), body)


async def talked(*rounds: list[bytes]) -> list[bytes]:
    """What one connection answers to each round; a round is answered before the next one comes."""
    wire, state = Wire(), ServerState()
    connection = HttpServerProtocol(config(echo, 75), state, {})
    connection.connection_made(wire)
    answers = []
    for pieces in rounds:
        for piece in pieces:
            connection.data_received(piece)
        await until(lambda: not state.tasks)
        answers.append(wire.written)
        wire.written = b""
    connection.connection_lost(None)
    return answers


async def alone(*pieces: bytes) -> bytes:
    """What a connection answers that has seen nothing else."""
    return (await talked(list(pieces)))[0]


@each("name", SPELLINGS)
@each("more", [b"", b"Connection: keep-alive\r\n"])
@each("body", [b"", b"x", b"hello, again", b"y" * 1000, post(b"inside")])
async def test_the_same_head_with_another_length_is_answered_as_if_it_were_the_first(
    name: bytes, more: bytes, body: bytes
) -> None:
    request = post(body, more, name)
    _, again, third = await talked([post(b"hello", more, name)], [request], [request])
    assert again == third == await alone(request)


async def test_every_cut_of_a_repeated_request_gives_the_same_answer() -> None:
    request = post(b"hello, again")
    expected = await alone(request)
    for cut in range(1, len(request)):
        pieces = [request[:cut], request[cut:]]
        assert await talked([post(b"")], pieces, [request]) == [await alone(post(b"")), expected, expected]
    assert (await talked([post(b"")], [bytes([byte]) for byte in request]))[1] == expected


@each(
    "other",
    [
        post(b"hello", path=b"/q"),
        post(b"hello", b"X-More: 1\r\n"),
        post(b"hello").replace(b"*/*", b"a/b"),
        post(b"hello").replace(b"length: 5", b"length:  5"),
        post(b"hello").replace(b": 5", b": 00000000000000000005"),
        post(b"hello").replace(b": 5", b": 5 "),
        b"GET /p HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST /p HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=range(8),
)
async def test_a_different_head_is_parsed_as_it_is_and_so_is_the_first_one_after_it(other: bytes) -> None:
    known = post(b"hello")
    _, *answers = await talked([known], [other], [known], [known])
    assert answers == [await alone(other), await alone(known), await alone(known)]


async def test_bytes_after_a_repeated_request_are_the_next_request() -> None:
    row = post(b"one") + post(b"two", path=b"/q") + post(b"three")
    expected = b"".join([await alone(post(b"one")), await alone(post(b"two", path=b"/q")), await alone(post(b"three"))])
    for cut in range(len(row)):
        assert (await talked([post(b"")], [row[:cut], row[cut:]]))[1] == expected


async def test_a_repeated_head_in_the_middle_of_another_is_part_of_that() -> None:
    known = post(b"hello")
    for begun in (b"P", b"POST /q HTTP/1.1\r\nX: "):
        _, *answers = await talked([known], [known + begun], [known])
        assert b"".join(answers) == await alone(known + begun + known)
    assert b"400 Bad Request" in await alone(known + b"P" + known)


async def test_a_body_that_the_application_ignores_is_read_to_its_end() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, scope["path"].encode())

    async with served(app) as server:
        client = await server.connect(post(b"hello"))
        assert (await client.response()).body == b"/p"
        large = post(b"x" * 1_000_000)
        await client.say(large[:200])
        assert (await client.response()).body == b"/p"
        await client.say(large[200:] + post(b"hello", path=b"/next"))
        assert (await client.response()).body == b"/next"


async def test_a_large_body_of_a_later_request_is_not_read_until_the_application_takes_it() -> None:
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await respond(send, await whole_body(receive) or b"")

    go_on.set()
    async with served(app) as server:
        client = await server.connect(post(b"hello"))
        assert (await client.response()).body == b"hello"
        go_on.clear()
        saying = asyncio.create_task(client.say(post(b"x" * 5_000_000)))
        await until(lambda: server.connection._is_read_paused)
        go_on.set()
        assert (await client.response()).body == b"x" * 5_000_000
        await saying


async def test_a_later_request_whose_body_stops_in_the_middle_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_TIMEOUT", 0.05)
    async with served(echo) as server:
        client = await server.connect(post(b"hello"))
        assert (await client.response()).status == 200
        await client.say(post(b"hello")[:-1])
        assert (await client.response()).status == 408
        assert await client.rest() == b""


async def test_the_application_learns_that_a_client_left_in_the_body_of_a_later_request() -> None:
    heard: list[bytes | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(await whole_body(receive))
        await respond(send, b"")

    async with served(app) as server:
        client = await server.connect(post(b"hello"))
        await client.response()
        await client.say(post(b"hello")[:-1])
        await until(lambda: bool(server.state.tasks))
        client.leave()
        await until(lambda: len(heard) == 2)
    assert heard == [b"hello", None]


class Direct:
    """An application that takes requests as they are."""

    def __init__(self) -> None:
        self.lengths: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it has `serve`")

    async def serve(self, cycle: RequestCycle) -> None:
        self.lengths.append(dict(cycle.headers)[b"content-length"])
        body = await whole_body(cycle.receive) or b""
        if len(body) > 5:
            await cycle.begin(200, [(b"x-way", b"stream")])
            await cycle.write(body, False)
            await cycle.write(b"", True)
        else:
            await cycle.respond(200, b"text/plain", (), body)


async def test_an_application_may_take_requests_as_they_are() -> None:
    app = Direct()
    async with served(app) as server:
        client = await server.connect()
        for body, way in [(b"hello", None), (b"hi", None), (b"too large", "stream")]:
            await client.say(post(body))
            response = await client.response()
            assert (response.body, response.headers.get("x-way")) == (body, way)
        other = await server.connect(post(b"", path=b"/q"))
        await other.response()
    assert app.lengths == [b"5", b"2", b"9", b"0"]
