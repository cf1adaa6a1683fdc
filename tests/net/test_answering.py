"""A whole response given at once: the same bytes as its head and its body given one after the other."""

from typing import Any

from uvicorn.server import ServerState

from tests.each import each
from tests.net.served import Wire, config
from tests.net.upstream import until
from tieline.net.server.cycle import RequestCycle
from tieline.net.server.protocol import HttpServerProtocol

Fields = list[tuple[bytes, bytes]]

KIND = b"text/plain"
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


class Answering:
    """An application that gives the same response in one of the two ways, to every request."""

    def __init__(self, at_once: bool, status: int, headers: Fields, kind: bytes = KIND) -> None:
        self.at_once = at_once
        self.status = status
        self.headers = headers
        self.kind = kind

    async def serve(self, cycle: RequestCycle) -> None:
        body = b"" if self.status in (204, 304) else b"words"
        if self.at_once:
            await cycle.respond(self.status, self.kind, self.headers, body)
        else:
            length = b"%d" % len(body)
            await cycle.begin(self.status, [(b"content-type", self.kind), (b"content-length", length), *self.headers])
            await cycle.write(body, True)


async def heard(app: Any, state: ServerState, *requests: bytes) -> tuple[bytes, bool]:
    """What a connection says, and whether it says that this was all."""
    wire = Wire()
    connection = HttpServerProtocol(config(app, 75), state, {})
    connection.connection_made(wire)
    for request in requests:
        connection.data_received(request)
        await until(lambda: not state.tasks)
    is_ending = connection.is_closing
    connection.connection_lost(None)
    return wire.written, is_ending


@each("default", [[], [(b"date", b"today")], [(b"connection", b"close")]], ids=str)
@each("status", [200, 204, 304, 404, 503])
@each(
    "headers",
    [
        [],
        [(b"x-one", b"1"), (b"x-two", b"")],
        [(b"connection", b"close")],
        [(b"transfer-encoding", b"chunked")],
        [(b"x-odd", b"two\r\nlines")],
        [(b"x-odd", b"nothing\0")],
    ],
    ids=str,
)
@each(
    "request_",
    [
        GET,
        GET.replace(b"GET", b"HEAD"),
        GET.replace(b"1.1", b"1.0"),
        b"POST / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    ],
    ids=lambda request: request.split(b"\r\n")[0].decode() + str(len(request)),
)
async def test_a_response_is_the_same_at_once_and_in_two_pieces(
    default: Fields, status: int, headers: Fields, request_: bytes
) -> None:
    state = ServerState()
    state.default_headers = default
    at_once = await heard(Answering(True, status, headers), state, request_, request_)
    assert at_once == await heard(Answering(False, status, headers), state, request_, request_)
    assert at_once[0]


async def test_a_length_of_the_applications_own_counts() -> None:
    said, is_ending = await heard(Answering(True, 200, [(b"content-length", b"7")]), ServerState(), GET)
    assert (said.split(b" ")[1], is_ending) == (b"500", True)


async def test_the_headers_of_the_server_are_those_of_now() -> None:
    state, app = ServerState(), Answering(True, 200, [])
    for day in (b"monday", b"tuesday"):
        state.default_headers = [(b"date", day)]
        said, _ = await heard(app, state, GET, GET)
        assert said.count(b"date: " + day) == said.count(b"date: ") == 2


async def test_any_number_of_types_can_be_given() -> None:
    state, app = ServerState(), Answering(True, 200, [])
    for number in range(20):
        app.kind = b"text/%d" % number
        assert b"\r\ncontent-type: text/%d\r\n" % number in (await heard(app, state, GET))[0]


async def test_what_is_answered_twice_is_out_of_order() -> None:
    errors: list[str] = []

    class Twice(Answering):
        async def serve(self, cycle: RequestCycle) -> None:
            await super().serve(cycle)
            try:
                await super().serve(cycle)
            except RuntimeError as error:
                errors.append(str(error))

    said, _ = await heard(Twice(True, 200, []), ServerState(), GET)
    assert said.count(b"HTTP/1.1") == 1
    assert errors == ["`http.response.start` is out of order"]
