"""Requests that are in order, however they come, and the responses to them."""

import asyncio
import logging
from typing import Any, cast

import pytest
from uvicorn.server import ServerState

from tests.each import each
from tests.net.served import Response, Wire, config, echo, respond, served, whole_body
from tests.net.upstream import until
from tieline.net.server.cycle import RequestCycle
from tieline.net.server.protocol import HttpServerProtocol

GET = b"GET /a%20b?c=%20d HTTP/1.1\r\nHost: here\r\nX-Odd: one\r\nx-odd: two\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /p HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX-Trailer: t\r\n\r\n"
)
UPGRADE = (
    b"POST /p HTTP/1.1\r\nHost: here\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    b"Content-Length: 5\r\n\r\nhello"
)
WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def asked(request: bytes) -> Response:
    async with served(echo) as server:
        client = await server.connect(request)
        return await client.response(to_head=request.startswith(b"HEAD"))


async def test_a_request_is_told_as_asgi_wants_it() -> None:
    heard = (await asked(GET)).heard
    assert heard["line"] == ["GET", "/a b", "/a%20b", "c=%20d"]
    assert heard["version"] == "1.1"
    assert heard["headers"] == [["host", "here"], ["x-odd", "one"], ["x-odd", "two"]]


async def test_the_scope_says_who_talks_to_whom() -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await respond(send, b"")

    async with served(app) as server:
        client = await server.connect(GET)
        await client.response()
        (scope,) = scopes
        assert scope["server"] == ("127.0.0.1", server.port)
        assert scope["client"] == client.writer.get_extra_info("sockname")
        assert (scope["type"], scope["scheme"], scope["root_path"]) == ("http", "http", "")


@pytest.mark.parametrize("request_", [POST, CHUNKED, UPGRADE])
async def test_a_body_is_told_whichever_way_it_comes(request_: bytes) -> None:
    assert (await asked(request_)).heard["body"] == "hello"


@each(
    ("target", "line", "host"),
    [
        (b"http://other:80/p?q", ["/p", "/p", "q"], "other:80"),
        (b"http://user:pw@other", ["/", "/", ""], "other"),
        (b"http://other?q=1", ["/", "/", "q=1"], "other"),
        (b"//p//x", ["//p//x", "//p//x", ""], "here"),
        (b"/p?q#f", ["/p", "/p", "q"], "here"),
        (b"/%C3%A9%ff", ["/é�", "/%C3%A9%ff", ""], "here"),
        (b"/" + 300 * b"x" + b"?y", ["/" + 300 * "x", "/" + 300 * "x", "y"], "here"),
    ],
)
async def test_every_form_of_a_target_is_understood(target: bytes, line: list[str], host: str) -> None:
    heard = (await asked(b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % target)).heard
    assert heard["line"] == ["GET", *line]
    assert dict(heard["headers"])["host"] == host


async def test_the_asterisk_is_a_target() -> None:
    assert (await asked(b"OPTIONS * HTTP/1.1\r\nHost: here\r\n\r\n")).heard["line"] == ["OPTIONS", "*", "*", ""]


async def test_who_would_change_the_protocol_is_answered_in_this_one_and_the_connection_stays() -> None:
    async with served(echo) as server:
        client = await server.connect(WEBSOCKET + UPGRADE + WEBSOCKET + GET)
        lines = [(await client.response()).heard["line"][1] for _ in range(4)]
    assert lines == ["/ws", "/p", "/ws", "/a b"]


async def test_trailers_have_nothing_to_say_about_the_next_request() -> None:
    trailers = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nExpect: x\r\nHost: y\r\n\r\n"
    async with served(echo) as server:
        client = await server.connect(trailers)
        assert (await client.response()).status == 200
        await client.say(POST[:-5])
        await client.say(b"hello")
        assert (await client.response()).heard["headers"] == [["host", "here"], ["content-length", "5"]]


async def answered(pieces: list[bytes], count: int) -> bytes:
    wire, state = Wire(), ServerState()
    connection = HttpServerProtocol(config(echo, 75), state, {})
    connection.connection_made(wire)
    for piece in pieces:
        connection.data_received(piece)
    await until(lambda: state.total_requests == count and not state.tasks)
    connection.connection_lost(None)
    return wire.written


@each("request_", [GET, POST, CHUNKED, UPGRADE, WEBSOCKET + GET], ids=range(5))
async def test_every_cut_of_a_request_gives_the_same_answer(request_: bytes) -> None:
    count = request_.count(b"HTTP/1.1")
    whole = await answered([request_], count)
    assert whole.startswith(b"HTTP/1.1 200 OK\r\n")
    for cut in range(1, len(request_)):
        assert await answered([request_[:cut], request_[cut:]], count) == whole
    assert await answered([bytes([byte]) for byte in request_], count) == whole


async def test_many_requests_go_over_one_connection() -> None:
    async with served(echo) as server:
        client = await server.connect()
        for number in range(20):
            await client.say(b"POST /%d HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\nhi" % number)
            response = await client.response()
            assert response.heard["line"][1] == f"/{number}"
            assert "connection" not in response.headers
        assert server.state.total_requests == 20


async def test_requests_that_come_at_once_are_answered_in_order_and_one_at_a_time() -> None:
    under_way = most = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        body = await whole_body(receive)
        for _ in range(3):
            await asyncio.sleep(0)
        under_way -= 1
        await respond(send, scope["path"].encode() + b" " + (body or b""))

    async with served(app) as server:
        row = (b"POST /%d HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\nb%d" % (n, n) for n in range(9))
        client = await server.connect(b"".join(row))
        bodies = [(await client.response()).body for _ in range(9)]
    assert bodies == [b"/%d b%d" % (n, n) for n in range(9)]
    assert most == 1


@each(
    ("head", "stays"),
    [
        (b"HTTP/1.1\r\nHost: here\r\n", True),
        (b"HTTP/1.1\r\nHost: here\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1\r\nHost: here\r\nConnection: foo, Close\r\n", False),
        (b"HTTP/1.0\r\n", False),
        (b"HTTP/1.0\r\nConnection: keep-alive\r\n", False),
    ],
)
async def test_a_connection_stays_unless_somebody_says_otherwise(head: bytes, stays: bool) -> None:
    async with served(echo) as server:
        client = await server.connect(b"GET / " + head + b"\r\n")
        response = await client.response()
        assert response.status == 200
        assert (response.headers.get("connection") != "close") is stays
        if stays:
            await client.say(GET)
            assert (await client.response()).status == 200
        else:
            assert await client.rest() == b""


async def test_what_follows_a_request_that_closes_is_not_read() -> None:
    async with served(echo) as server:
        client = await server.connect(b"GET /first HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n" + GET)
        assert (await client.response()).heard["line"][1] == "/first"
        assert await client.rest() == b""
        assert server.state.total_requests == 1


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


def sends(*messages: dict[str, Any]) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole_body(receive)
        for message in messages:
            kind = "http.response.start" if "status" in message else "http.response.body"
            await send({"type": kind, **message})

    return app


FIRST = b"HTTP/1.1 200 OK\r\n"
TEXT = [(b"content-type", b"text/plain")]
LENGTH = [(b"content-length", b"4")]


@each(
    ("messages", "written"),
    [
        (
            [{"status": 200, "headers": [*TEXT, *LENGTH]}, {"body": b"text"}],
            FIRST + b"content-type: text/plain\r\ncontent-length: 4\r\n\r\ntext",
        ),
        ([{"status": 200}, {"body": b"text"}], FIRST + b"transfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n"),
        ([{"status": 200}, {}], FIRST + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        (
            [{"status": 200, "headers": LENGTH}, {"body": b"te", "more_body": True}, {"body": b"xt"}],
            FIRST + b"content-length: 4\r\n\r\ntext",
        ),
        (
            [{"status": 200}, {"body": b"te", "more_body": True}, {"more_body": True}, {"body": b"xt"}],
            FIRST + b"transfer-encoding: chunked\r\n\r\n2\r\nte\r\n2\r\nxt\r\n0\r\n\r\n",
        ),
        (
            [{"status": 200}, {"more_body": True}, {"body": b"text", "more_body": True}, {}],
            FIRST + b"transfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n",
        ),
        (
            [{"status": 200, "headers": [(b"transfer-encoding", b"chunked")]}, {"body": b"text"}],
            FIRST + b"transfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n",
        ),
        ([{"status": 204}, {}], b"HTTP/1.1 204 No Content\r\n\r\n"),
        ([{"status": 304, "headers": LENGTH}, {}], b"HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\n"),
        ([{"status": 529}, {}], b"HTTP/1.1 529 \r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ],
)
async def test_a_response_is_framed_as_it_was_sent(messages: list[dict[str, Any]], written: bytes) -> None:
    async with served(sends(*messages)) as server:
        client = await server.connect(GET)
        assert await client.reader.readexactly(len(written)) == written
        await client.say(GET.replace(b"Host", b"Connection: close\r\nHost"))
        again = await client.rest()
        assert again.replace(b"connection: close\r\n", b"") == written


async def test_a_head_and_the_first_of_a_body_are_one_write() -> None:
    for messages in ([{"body": b"text"}], [{"body": b"te", "more_body": True}]):
        wire, state = Wire(), ServerState()
        writes: list[bytes] = []
        wire.write = writes.append  # type: ignore[method-assign,assignment] # to see each of them
        connection = HttpServerProtocol(config(sends({"status": 200}, *messages), 75), state, {})
        connection.connection_made(wire)
        connection.data_received(GET)
        await until(lambda state=state: not state.tasks)  # type: ignore[misc] # bound in a loop
        assert len(writes) == 1
        connection.connection_lost(None)


async def test_a_stream_that_only_begins_sends_its_head_at_once() -> None:
    more = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"text"})

    async with served(app) as server:
        client = await server.connect(GET)
        assert (await client.head())[0] == 200
        more.set()
        assert await client.line() == b"4\r\n"


async def test_a_head_is_answered_without_a_body() -> None:
    async with served(sends({"status": 200, "headers": LENGTH}, {"body": b"text"})) as server:
        client = await server.connect(2 * b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n")
        for _ in range(2):
            response = await client.response(to_head=True)
            assert (response.status, response.headers) == (200, {"content-length": "4"})


async def test_a_client_of_old_gets_its_stream_up_to_the_end_of_the_connection() -> None:
    async with served(sends({"status": 200}, {"body": b"te", "more_body": True}, {"body": b"xt"})) as server:
        client = await server.connect(b"GET / HTTP/1.0\r\n\r\n")
        response = await client.response()
        assert response.headers == {"connection": "close"}
        assert response.body == b"text"


async def test_every_response_carries_the_headers_of_the_server() -> None:
    async with served(sends({"status": 200}, {})) as server:
        server.state.default_headers = [(b"date", b"today")]
        client = await server.connect(GET)
        assert (await client.response()).headers["date"] == "today"
        await client.say(b"nonsense\r\n\r\n")
        refused = await client.response()
        assert (refused.status, refused.headers["date"]) == (400, "today")


async def test_an_application_may_close_the_connection() -> None:
    async with served(sends({"status": 200, "headers": [(b"connection", b"close")]}, {})) as server:
        client = await server.connect(GET + GET)
        assert (await client.response()).headers["connection"] == "close"
        assert await client.rest() == b""


# ── Applications that go wrong ───────────────────────────────────────────────────────────────────


async def raises(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("a bug")


async def is_cancelled(scope: Any, receive: Any, send: Any) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "app",
    [
        raises,
        is_cancelled,
        sends(),
        sends({"status": 200}),
        sends({"body": b"text"}),
        sends({"status": 200}, {"status": 200}),
        sends({"status": 200, "headers": LENGTH}, {"body": b"longer"}),
        sends({"status": 200, "headers": LENGTH}, {"body": b"s"}),
        sends({"status": 200, "headers": [(b"x", b"a\r\nb: c")]}, {}),
        sends({"status": 200, "headers": [(b"x", b"a\nb")]}, {}),
        sends({"status": 200, "headers": [(b"x", b"a\rb")]}, {}),
        sends({"status": 200, "headers": [(b"x\r\ny", b"a")]}, {}),
        sends({"status": 200, "headers": [(b"x", b"a\0b")]}, {}),
        sends({"status": 99}, {}),
    ],
)
async def test_an_application_that_breaks_before_it_wrote_is_an_error_and_the_end(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "tieline.app.serve")
    async with served(app) as server:
        client = await server.connect(GET + GET)
        response = await client.response()
        assert (response.status, response.headers["connection"]) == (500, "close")
        assert await client.rest() == b""
        assert server.state.total_requests == 1


@pytest.mark.parametrize(
    "app",
    [
        sends({"status": 200}, {"body": b"te", "more_body": True}),
        sends({"status": 200, "headers": LENGTH}, {"body": b"te", "more_body": True}),
        sends({"status": 200, "headers": LENGTH}, {"body": b"te", "more_body": True}, {}),
        sends({"status": 200}, {"body": b"te", "more_body": True}, {"status": 200}),
    ],
)
async def test_a_response_that_breaks_in_the_middle_does_not_look_whole(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "tieline.app.serve")
    async with served(app) as server:
        client = await server.connect(GET)
        with pytest.raises(asyncio.IncompleteReadError):
            await client.response()


class Cutting:
    """An application that writes some of a stream and then cuts it."""

    async def serve(self, peer: RequestCycle) -> None:
        await peer.begin(200, [(b"content-type", b"text/event-stream")])
        await peer.write(b"data: error\n\n", False)
        peer.cut()


async def test_a_stream_that_is_cut_is_delivered_without_its_last_chunk() -> None:
    async with served(cast("Any", Cutting())) as server:
        client = await server.connect(2 * b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        _, headers = await client.head()
        assert headers["transfer-encoding"] == "chunked"
        assert await client.rest() == b"d\r\ndata: error\n\n\r\n", "no last chunk, no answer to the next request"


async def test_a_stream_of_old_that_is_cut_still_delivers_what_was_written() -> None:
    async with served(cast("Any", Cutting())) as server:
        client = await server.connect(b"GET / HTTP/1.0\r\n\r\n")
        assert (await client.response()).body == b"data: error\n\n"


async def test_a_broken_stream_for_a_client_of_old_is_not_ended_in_order() -> None:
    async with served(sends({"status": 200}, {"body": b"te", "more_body": True})) as server:
        client = await server.connect(b"GET / HTTP/1.0\r\n\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await client.response()


async def test_nothing_can_be_sent_after_the_end() -> None:
    errors: list[RuntimeError] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"text")
        try:
            await send({"type": "http.response.body", "body": b"more"})
        except RuntimeError as error:
            errors.append(error)

    async with served(app) as server:
        client = await server.connect(GET)
        assert (await client.response()).body == b"text"
        await until(lambda: bool(errors))


async def test_what_breaks_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with served(raises) as server:
        client = await server.connect(GET)
        assert (await client.response()).status == 500
    assert "GET /a b failed" in caplog.text
    assert "a bug" in caplog.text
