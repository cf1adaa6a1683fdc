"""WebSockets for endpoints: routes, the guard, refusals, and the same on any ASGI server."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.each import each
from tests.net.served import WAIT, Client, served
from tests.net.upstream import until
from tests.net.websocket_client import HANDSHAKE, Frame, Peer, closing, frame
from tieline.frontends.guard import Guard
from tieline.frontends.http import BodyBudget, Exchange
from tieline.frontends.http_app import HttpApp, Route
from tieline.frontends.keyless import Keyless
from tieline.model.errors import GatewayError
from tieline.wire import openai_chat

TEXT = 1
HEAD = HANDSHAKE.replace(b"Host: here", b"Host: localhost")


async def echo(exchange: Exchange) -> None:
    websocket = await exchange.accept([(b"x-model", b"demo")])
    while (message := await websocket.receive()) is not None:
        await websocket.send(b"you said: " + message)


async def refuse(exchange: Exchange) -> None:
    assert exchange.is_upgrade
    raise GatewayError("bad_request", "Use HTTP.", status=426)


async def fail_late(exchange: Exchange) -> None:
    await exchange.accept()
    raise GatewayError("upstream", "The upstream is gone.")


async def break_late(exchange: Exchange) -> None:
    await exchange.accept()
    raise ValueError("secret")


async def plain(exchange: Exchange) -> None:
    await exchange.respond(200, b"plain" + await exchange.body())


def app(
    *, keys: tuple[str, ...] = (), keyless: Keyless | None = None, limit: int = 1000, most: int = 10_000
) -> HttpApp:
    render = openai_chat.render_error
    routes = {
        "/ws": {"WEBSOCKET": Route(echo, render), "POST": Route(plain, render)},
        "/v1/off": {"WEBSOCKET": Route(refuse, render)},
        "/late": {"WEBSOCKET": Route(fail_late, render)},
        "/broken": {"WEBSOCKET": Route(break_late, render)},
        "/plain": {"GET": Route(plain, render)},
    }
    guard = Guard(keys=keys, keyless=keyless)
    return HttpApp(routes, guard=guard, limit=limit, fallback=lambda _: render, bodies=BodyBudget(most))


def handshake(path: str = "/ws", *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return HEAD.replace(b"/ws", path.encode(), 1)[:-2] + lines.encode() + b"\r\n"


def message(body: bytes) -> str:
    text: str = json.loads(body)["error"]["message"]
    return text


async def accepted(client: Client) -> Peer:
    status, headers = await client.head()
    assert (status, headers["upgrade"]) == (101, "websocket")
    return Peer(client)


# ── Routes ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_route_for_websockets_receives_and_sends_messages() -> None:
    async with served(app()) as server:
        client = await server.connect(handshake())
        status, headers = await client.head()
        assert (status, headers["x-model"]) == (101, "demo")
        peer = Peer(client)
        await peer.say(frame(b"hello"))
        assert await peer.frame() == Frame(TEXT, b"you said: hello")
        await peer.say(closing(1000))
        assert (await peer.frame()).code == 1000


async def test_a_path_without_such_a_route_is_served_as_plain_http() -> None:
    async with served(app()) as server:
        client = await server.connect(handshake("/plain") + handshake("/nothing"))
        assert (await client.response()).body == b"plain"
        assert (await client.response()).status == 404


async def test_other_methods_of_the_path_are_served_as_ever() -> None:
    async with served(app()) as server:
        client = await server.connect(b"POST /ws HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi")
        assert (await client.response()).body == b"plainhi"
        await client.say(b"DELETE /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
        response = await client.response()
        assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_a_get_without_a_handshake_is_told_what_is_missing() -> None:
    async with served(app()) as server:
        client = await server.connect(b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
        response = await client.response()
        assert message(response.body) == "GET /ws takes a WebSocket handshake (`Upgrade: websocket`)."
        named = ("upgrade", "connection", "sec-websocket-version")
        assert (response.status, [response.headers[name] for name in named]) == (426, ["websocket", "upgrade", "13"])


async def test_a_wrong_version_is_told_the_right_one() -> None:
    async with served(app()) as server:
        client = await server.connect(handshake().replace(b"Version: 13", b"Version: 8"))
        response = await client.response()
        assert (response.status, response.headers["sec-websocket-version"]) == (426, "13")
        assert message(response.body) == "The only supported WebSocket version is 13 (`Sec-WebSocket-Version: 13`)."
        await client.say(handshake())
        await accepted(client)


async def test_an_endpoint_may_refuse_a_handshake() -> None:
    async with served(app()) as server:
        client = await server.connect(handshake("/v1/off") + handshake())
        response = await client.response()
        assert (response.status, message(response.body)) == (426, "Use HTTP.")
        await accepted(client)


async def test_the_list_of_paths_names_no_method_that_does_not_exist() -> None:
    async with served(app()) as server:
        client = await server.connect(b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert "WEBSOCKET" not in message((await client.response()).body)


# ── The guard ────────────────────────────────────────────────────────────────────────────────────


@each(
    ("headers", "host", "status"),
    [
        (("Origin: https://evil.example",), b"localhost", 403),
        (("Origin: null",), b"localhost", 403),
        (("Sec-Fetch-Site: cross-site",), b"localhost", 403),
        ((), b"evil.example", 403),
        (("Authorization: Bearer wrong",), b"localhost", 401),
        ((), b"localhost", 401),
    ],
)
async def test_who_may_not_use_the_gateway_gets_no_websocket(
    headers: tuple[str, ...], host: bytes, status: int
) -> None:
    async with served(app(keys=("right",))) as server:
        client = await server.connect(handshake("/ws", *headers).replace(b"Host: localhost", b"Host: " + host))
        response = await client.response()
        assert (response.status, "upgrade" in response.headers) == (status, False)
        assert server.connection._websocket is None


@each("headers", [("Authorization: Bearer right",), ("x-api-key: right", "Origin: http://localhost")])
async def test_the_key_opens_a_websocket(headers: tuple[str, ...]) -> None:
    async with served(app(keys=("right",))) as server:
        await accepted(await server.connect(handshake("/ws", *headers)))


async def test_another_user_of_this_machine_gets_no_websocket() -> None:
    async def owner_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
        return 1001

    async with served(app(keyless=Keyless(owner_of=owner_of, users=(1000,)))) as server:
        client = await server.connect(handshake())
        assert (await client.response()).status == 401


# ── Limits and errors ────────────────────────────────────────────────────────────────────────────


async def test_a_message_may_be_as_large_as_a_body() -> None:
    async with served(app(limit=1000)) as server:
        peer = await accepted(await server.connect(handshake() + frame(1000 * b"x")))
        assert len((await peer.frame()).payload) == 1010
        await peer.say(frame(1001 * b"x"))
        assert (await peer.frame()).code == 1009


async def test_messages_count_against_the_memory_of_all_requests() -> None:
    application = app(limit=100_000, most=10_000)
    async with served(application) as server:
        peer = await accepted(await server.connect(handshake() + frame(5_000 * b"x")))
        assert len((await peer.frame()).payload) == 5_010
        assert application._bodies.reserved == 0
        other = await accepted(await server.connect(handshake() + frame(9_000 * b"x")[:8_000]))
        await until(lambda: application._bodies.reserved == 8_000)
        await peer.say(frame(5_000 * b"x")[:4_000])
        assert (await peer.frame()).code == 1013
        assert application._bodies.reserved == 8_000
        other.client.leave()
        await until(lambda: not application._bodies.reserved)


@each(
    ("path", "reason"),
    [
        ("/late", "The upstream is gone."),
        ("/broken", "Something went wrong inside the gateway; its log says what."),
    ],
)
async def test_an_error_after_the_handshake_closes_with_its_message(path: str, reason: str) -> None:
    logging.getLogger("tieline").setLevel(logging.CRITICAL)
    try:
        async with served(app()) as server:
            peer = await accepted(await server.connect(handshake(path)))
            answer = await peer.frame()
            assert (answer.code, answer.reason) == (1011, reason)
    finally:
        logging.getLogger("tieline").setLevel(logging.NOTSET)


# ── Any ASGI server ──────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def on_uvicorn(application: HttpApp) -> AsyncIterator[str]:
    """The application behind uvicorn's own classes."""
    config = uvicorn.Config(
        application, port=0, http="h11", ws="websockets-sansio", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment] # signals are not for tests
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started or task.done())
    try:
        yield f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        async with asyncio.timeout(WAIT):
            await task


async def test_any_asgi_server_serves_websockets_too() -> None:
    async with on_uvicorn(app()) as url, asyncio.timeout(WAIT):
        async with connect(f"{url}/ws", proxy=None) as client:
            await client.send("hello")
            assert await client.recv() == "you said: hello"
            await client.send(b"binary")
            await client.wait_closed()
            assert client.close_code == 1003
        async with connect(f"{url}/ws", proxy=None) as client:
            await client.send(1001 * "x")
            await client.wait_closed()
            assert client.close_code == 1009
        async with connect(f"{url}/late", proxy=None) as client:
            await client.wait_closed()
            assert (client.close_code, client.close_reason) == (1011, "The upstream is gone.")


@each(
    ("path", "headers", "status"),
    [
        ("/v1/off", {}, 426),
        ("/nothing", {}, 404),
        ("/ws", {"Origin": "https://evil.example"}, 403),
        ("/plain", {}, 200),
    ],
)
async def test_any_asgi_server_sends_refusals(path: str, headers: dict[str, str], status: int) -> None:
    async with on_uvicorn(app()) as url, asyncio.timeout(WAIT):
        with pytest.raises(InvalidStatus) as raised:
            await connect(f"{url}{path}", additional_headers=headers, proxy=None)
        assert raised.value.response.status_code == status


async def test_an_asgi_server_without_responses_to_handshakes_closes_them() -> None:
    sent: list[Any] = []
    scope = {"type": "websocket", "path": "/v1/off", "headers": [(b"host", b"localhost")], "client": None}

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(said: Any) -> None:
        sent.append(said)

    await app()(scope, receive, send)
    assert sent == [{"type": "websocket.close"}]


async def test_a_client_that_left_an_asgi_server_is_noticed() -> None:
    sent: list[Any] = []
    received = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "hello"}])
    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"localhost")], "client": None}

    async def receive() -> Any:
        return next(received)

    async def send(said: Any) -> None:
        sent.append(said["type"])
        if said["type"] == "websocket.send":
            raise OSError("gone")

    await app()(scope, receive, send)
    assert sent == ["websocket.accept", "websocket.send"]
