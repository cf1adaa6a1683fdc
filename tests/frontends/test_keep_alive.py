"""Many requests on one connection: each of them is checked."""

import pytest

from tests.net.served import Client, served
from tieline.frontends.guard import Guard
from tieline.frontends.http import Exchange
from tieline.frontends.http_app import HttpApp, Route
from tieline.frontends.page_pass import LIFETIME, Passes
from tieline.model.errors import GatewayError
from tieline.wire.openai_chat import render_error


async def tell(exchange: Exchange) -> None:
    body = await exchange.body()
    await exchange.respond(200, b"%b %d" % (body, exchange.size))


async def refuse(exchange: Exchange) -> None:
    raise GatewayError("bad_request", "No.")


APP = HttpApp(
    {"/tell": {"POST": Route(tell, render_error)}, "/refuse": {"POST": Route(refuse, render_error)}},
    guard=Guard(keys=["s3cret"]),
    limit=1000,
    fallback=lambda _: render_error,
)


def post(body: bytes = b"hi", path: bytes = b"/tell", key: bytes = b"s3cret", host: bytes = b"localhost") -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
    return head % (path, host, key, len(body)) + body


async def status(client: Client, request: bytes) -> int:
    await client.say(request)
    return (await client.response()).status


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (post(key=b"s3creT"), 401),
        (post(key=b""), 401),
        (post(host=b"evil.example"), 403),
        (post(path=b"/nowhere"), 404),
        (post(path=b"/refuse"), 400),
        (post(body=b"x" * 1001), 413),
        (post(body=b"x" * 1000), 200),
    ],
)
async def test_a_request_is_judged_the_same_the_first_time_and_later(request_: bytes, expected: int) -> None:
    async with served(APP) as server:
        client = await server.connect()
        for request, code in [(post(), 200), (request_, expected), (request_, expected), (post(), 200), (post(), 200)]:
            assert await status(client, request) == code


async def test_the_key_of_one_client_does_not_open_for_another() -> None:
    async with served(APP) as server:
        one, other = await server.connect(), await server.connect()
        assert [await status(one, post()) for _ in range(2)] == [200, 200]
        assert [await status(other, post(key=b"s3creT")) for _ in range(2)] == [401, 401]


async def test_a_pass_is_checked_with_every_request() -> None:
    now = 1000.0
    passes = Passes(["s3cret"], lambda: now)
    guard = Guard(keys=["s3cret"], clock=lambda: now)
    app = HttpApp(
        {"/api/x": {"POST": Route(tell, render_error)}}, guard=guard, limit=10, fallback=lambda _: render_error
    )
    head = "POST /api/x HTTP/1.1\r\nHost: localhost\r\nX-Tieline-Pass: {}\r\nContent-Length: 0\r\n\r\n"
    request = head.format(passes.issue("s3cret", "localhost")).encode()
    async with served(app) as server:
        client = await server.connect()
        assert [await status(client, request) for _ in range(3)] == [200, 200, 200]
        now += LIFETIME
        assert await status(client, request) == 401


async def test_a_body_is_read_whole_or_in_pieces() -> None:
    async with served(APP) as server:
        client = await server.connect(post(b"hello"))
        assert (await client.response()).body == b"hello 5"
        await client.say(post(b"hello again")[:-3])
        await client.say(b"ain")
        assert (await client.response()).body == b"hello again 11"
