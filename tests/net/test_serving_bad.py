"""Requests that are not in order, on purpose or not: refused in plain words, and the connection ends."""

from typing import Any

from tests.each import each
from tests.net.served import Client, Response, echo, respond, served, whole_body
from tests.net.upstream import until
from tieline.net.server import protocol

LINE = b"POST /p HTTP/1.1\r\n"
HEAD = LINE + b"Host: here\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: here\r\n\r\n"

REFUSED = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03", 400),
    "HTTP/2 by prior knowledge": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0", 400),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\nHost: here\r\n\r\n", 505),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\nHost: here\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "a method nobody knows": (b"FOO / HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "a method in lower case": (b"get / HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "a proxy": (b"CONNECT other:80 HTTP/1.1\r\nHost: here\r\n\r\n", 405),
    "a proxy with a path": (b"CONNECT / HTTP/1.1\r\nHost: here\r\n\r\n", 405),
    "a proxy with a body": (b"CONNECT / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nGET / HTT", 405),
    "a proxy that is kept": (b"CONNECT other:80 HTTP/1.1\r\nHost: here\r\nConnection: keep-alive\r\n\r\n", 405),
    "a target that is none": (b"GET nowhere HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "a target with a bad port": (b"GET http://h:99999/ HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "bytes in a path": (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "bytes in a query": (b"GET /?\xc3\xa9 HTTP/1.1\r\nHost: here\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (HEAD + b"Host: here\r\n\r\n", 400),
    "bare line ends": (b"GET / HTTP/1.1\nHost: here\n\n", 400),
    "a bare line end in a header": (b"GET / HTTP/1.1\r\nHost: here\nX: y\r\n\r\n", 400),
    "a bare return in a header": (b"GET / HTTP/1.1\r\nHost: here\rX: y\r\n\r\n", 400),
    "a folded header": (HEAD + b"X: y\r\n z\r\n\r\n", 400),
    "a blank before a colon": (LINE + b"Host : here\r\n\r\n", 400),
    "a header without a colon": (LINE + b"Host\r\n\r\n", 400),
    "a header without a name": (HEAD + b": x\r\n\r\n", 400),
    "a zero byte": (HEAD + b"X: a\0b\r\n\r\n", 400),
    "a length beside chunks": (HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks beside a length": (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
    "the same length twice": (HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 400),
    "a list of lengths": (HEAD + b"Content-Length: 2, 2\r\n\r\nhi", 400),
    "a length with a sign": (HEAD + b"Content-Length: +2\r\n\r\nhi", 400),
    "a negative length": (HEAD + b"Content-Length: -2\r\n\r\nhi", 400),
    "a length in hex": (HEAD + b"Content-Length: 0x2\r\n\r\nhi", 400),
    "a length beyond all bounds": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\nhi", 400),
    "an empty length": (HEAD + b"Content-Length: \r\n\r\nhi", 400),
    "a coding in front": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "a coding behind": (HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "chunks in chunks": (HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    "no such coding": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "two codings": (HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 400),
    "a coding on a line before": (
        HEAD + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunks on two lines": (HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "another protocol and two hosts": (HEAD + b"Host: here\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 400),
    "another protocol and expectation": (HEAD + b"Expect: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 417),
    "chunks of old": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "another expectation": (HEAD + b"Expect: miracles\r\n\r\n", 417),
}


async def refused(client: Client, status: int) -> Response:
    response = await client.response()
    assert response.status == status, response.body
    assert response.headers["connection"] == "close"
    assert response.body
    assert await client.rest() == b""
    return response


@each(("said", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_bad_request_is_refused_and_nothing_behind_it_is_read(said: bytes, status: int) -> None:
    async with served(echo) as server:
        await refused(await server.connect(said + SMUGGLED), status)
        assert server.state.total_requests == 0


@each(("said", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_bad_request_on_a_connection_that_was_used_before_is_refused(said: bytes, status: int) -> None:
    async with served(echo) as server:
        client = await server.connect()
        for _ in range(2):
            await client.say(HEAD + b"Content-Length: 2\r\n\r\nhi")
            assert (await client.response()).status == 200
        await client.say(said + SMUGGLED)
        await refused(client, status)


@each(("said", "status"), REFUSED.values(), ids=REFUSED)
async def test_a_bad_request_behind_a_good_one_is_refused_after_the_answer(said: bytes, status: int) -> None:
    async with served(echo) as server:
        client = await server.connect(HEAD + b"Content-Length: 2\r\n\r\nhi" + said)
        assert (await client.response()).heard["body"] == "hi"
        await refused(client, status)


@each(
    "chunks",
    [
        b"2\nhi\n0\n\n",
        b"2\r\nhi\n0\r\n\r\n",
        b"2\r\nhix\r\n0\r\n\r\n",
        b"2 \r\nhi\r\n0\r\n\r\n",
        b" 2\r\nhi\r\n0\r\n\r\n",
        b"0x2\r\nhi\r\n0\r\n\r\n",
        b"-2\r\nhi\r\n0\r\n\r\n",
        b"\r\nhi\r\n0\r\n\r\n",
        b"2;a\nhi\r\n0\r\n\r\n",
        b"2;a\rhi\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nhi",
        b"0\r\n" + SMUGGLED,
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_bad_chunks_are_refused_while_the_application_waits_for_them(chunks: bytes) -> None:
    ended: list[bytes | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        ended.append(await whole_body(receive))
        await respond(send, b"too late")

    async with served(app) as server:
        client = await server.connect(CHUNKED + chunks)
        await refused(client, 400)
        await until(lambda: ended == [None])


async def test_a_body_that_breaks_under_a_response_ends_the_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await whole_body(receive)
        await send({"type": "http.response.body", "body": b"b"})

    async with served(app) as server:
        client = await server.connect(CHUNKED)
        assert (await client.head())[0] == 200
        await client.say(b"x\r\n")
        assert await client.rest() == b"1\r\na\r\n"


async def test_a_bad_body_that_waits_for_its_turn_is_refused_in_its_turn() -> None:
    async with served(echo) as server:
        client = await server.connect(SMUGGLED + CHUNKED + b"x\r\n")
        assert (await client.response()).heard["line"][1] == "/smuggled"
        await refused(client, 400)
        assert server.state.total_requests == 1


async def test_what_looks_like_a_request_inside_a_body_is_a_body() -> None:
    for framed in (
        HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED),
        HEAD + b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED),
        CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    ):
        async with served(echo) as server:
            client = await server.connect(framed + SMUGGLED)
            assert (await client.response()).heard["body"].encode() == SMUGGLED
            assert (await client.response()).heard["line"][1] == "/smuggled"


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────


@each(
    "head",
    [
        HEAD + b"X: " + protocol.MAX_HEAD * b"x" + b"\r\n\r\n",
        HEAD + b"X: x\r\n" * (protocol.MAX_HEAD // 5) + b"\r\n",
        b"GET /" + protocol.MAX_HEAD * b"x" + b" HTTP/1.1\r\nHost: here\r\n\r\n",
    ],
    ids=["one header", "many headers", "the target"],
)
@each("is_complete", [True, False])
async def test_a_head_that_is_too_large_is_refused_complete_or_not(head: bytes, is_complete: bool) -> None:
    async with served(echo) as server:
        client = await server.connect()
        client.writer.write(head if is_complete else head[:-2])
        await refused(client, 431)


async def test_a_head_may_be_large_and_its_body_larger() -> None:
    head = HEAD + b"X: " + (protocol.MAX_HEAD - 500) * b"x" + b"\r\nContent-Length: 200000\r\n\r\n"
    async with served(echo) as server:
        client = await server.connect(head + 200_000 * b"y")
        assert len((await client.response()).heard["body"]) == 200_000


async def test_trailers_without_end_are_refused() -> None:
    async with served(echo) as server:
        client = await server.connect(CHUNKED + b"0\r\n")
        client.writer.write(b"X: " + 8 * protocol.MAX_HEAD * b"x")
        await refused(client, 431)


async def test_line_ends_without_end_are_refused() -> None:
    async with served(echo) as server:
        client = await server.connect()
        client.writer.write(b"\r\n" * protocol.MAX_HEAD)
        await refused(client, 431)


async def test_of_a_long_row_of_requests_the_first_are_answered_and_the_rest_is_not_read() -> None:
    async with served(echo) as server:
        client = await server.connect(1000 * SMUGGLED)
        for _ in range(protocol.MAX_PIPELINED):
            assert (await client.response()).status == 200
        assert (await client.response()).headers["connection"] == "close"
        assert await client.rest() == b""
        assert server.state.total_requests == protocol.MAX_PIPELINED + 1
