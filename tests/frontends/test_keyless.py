"""A gateway without a key serves the user who runs it, and nobody else."""

import json

import pytest

from tests.net.served import Client, served
from tieline.frontends.guard import Guard
from tieline.frontends.http import AsgiConnection, Exchange
from tieline.frontends.http_app import HttpApp, Route
from tieline.frontends.keyless import Keyless
from tieline.model.errors import GatewayError
from tieline.wire import anthropic, openai_chat

ME, OTHER = 1000, 1001


class Users:
    """Whose the connections are that come one after another."""

    def __init__(self, *uids: int | None) -> None:
        self.uids = [*uids]
        self.asked = 0

    async def owner_of(self, client: tuple[str, int], server: tuple[str, int]) -> int | None:
        assert client[0] == server[0] == "127.0.0.1"
        self.asked += 1
        return self.uids.pop(0)


async def ok(exchange: Exchange) -> None:
    await exchange.respond(200, b"{}")


def app(users: Users, *, is_published: bool = False, keys: tuple[str, ...] = ()) -> HttpApp:
    keyless = Keyless(key_name="MY_KEY", is_published=is_published, owner_of=users.owner_of, users=(0, ME))
    chat, messages = openai_chat.render_error, anthropic.render_error
    routes = {
        "/v1/chat/completions": {"POST": Route(ok, chat)},
        "/v1/messages": {"POST": Route(ok, messages)},
        "/": {"GET": Route(ok, chat, keyed=False)},
        "/healthz": {"GET": Route(ok, chat, keyed=False, public=True)},
    }
    return HttpApp(routes, guard=Guard(keys=keys, keyless=keyless), limit=1000, fallback=lambda _: chat)


def request(path: str = "/v1/chat/completions", *headers: str) -> bytes:
    method = "GET" if path in ("/", "/healthz") else "POST"
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Length: 2", *headers, "", "{}"]
    return "\r\n".join(lines).encode()


async def status(client: Client, *given: str) -> int:
    await client.say(request(*given))
    return (await client.response()).status


@pytest.mark.parametrize("uid", [ME, 0])
async def test_the_user_who_runs_it_and_root_need_no_key(uid: int) -> None:
    users = Users(uid)
    async with served(app(users)) as server:
        client = await server.connect()
        assert [await status(client, path) for path in ("/", "/v1/messages", "/v1/messages")] == [200, 200, 200]
    assert users.asked == 1, "a connection keeps its user"


@pytest.mark.parametrize("uid", [OTHER, None])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/", "/nowhere"])
async def test_other_users_and_unknown_ones_need_a_key_for_every_path(uid: int | None, path: str) -> None:
    users = Users(uid)
    async with served(app(users)) as server:
        client = await server.connect()
        assert [await status(client, path) for _ in range(2)] == [401, 401]
    assert users.asked == 1


async def test_others_may_ask_whether_it_is_alive() -> None:
    async with served(app(Users(OTHER))) as server:
        client = await server.connect()
        assert [await status(client, "/healthz"), await status(client, "/"), await status(client, "/healthz")] == [
            200,
            401,
            200,
        ]


async def test_a_head_that_was_accepted_from_its_user_is_not_accepted_from_another() -> None:
    async with served(app(Users(ME, OTHER))) as server:
        mine, theirs = await server.connect(), await server.connect()
        assert [await status(mine) for _ in range(3)] == [200, 200, 200]
        assert [await status(theirs) for _ in range(3)] == [401, 401, 401]
        assert await status(mine) == 200


@pytest.mark.parametrize(
    ("path", "shape"), [("/v1/chat/completions", ["error"]), ("/v1/messages", ["type", "error", "request_id"])]
)
async def test_the_refusal_is_in_the_dialect_of_the_path_and_says_what_to_do(path: str, shape: list[str]) -> None:
    async with served(app(Users(OTHER))) as server:
        client = await server.connect(request(path))
        body = json.loads((await client.response()).body)
    assert [*body] == [name for name in shape if name in body]
    assert "error" in body
    assert "another user" in body["error"]["message"]
    assert "MY_KEY" in body["error"]["message"]


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded: for=1.2.3.4",
        "X-Forwarded-For: 1.2.3.4",
        "x-forwarded-host: a.example",
        "X-Real-IP: 1.2.3.4",
        "CF-Connecting-IP: 1.2.3.4",
        "Via: 1.1 proxy",
    ],
)
async def test_what_comes_through_a_proxy_or_a_tunnel_needs_a_key(header: str) -> None:
    async with served(app(Users(ME))) as server:
        client = await server.connect()
        assert [await status(client, "/v1/messages", header) for _ in range(2)] == [401, 401]
        assert await status(client, "/healthz", header) == 200
        assert await status(client, "/v1/messages") == 200
        await client.say(request("/v1/messages", header))
        message = json.loads((await client.response()).body)["error"]["message"]
    assert header.partition(":")[0].lower() in message
    assert "MY_KEY" in message


async def test_a_gateway_with_more_host_names_needs_a_key() -> None:
    users = Users(ME)
    async with served(app(users, is_published=True)) as server:
        client = await server.connect()
        assert [await status(client), await status(client, "/healthz")] == [401, 200]
        await client.say(request())
        assert b"MY_KEY" in (await client.response()).body


async def test_who_brings_the_key_of_the_gateway_is_served_whoever_it_is() -> None:
    users = Users()
    async with served(app(users, is_published=True, keys=("s3cret",))) as server:
        client = await server.connect()
        key = ("Authorization: Bearer s3cret", "X-Forwarded-For: 1.2.3.4")
        assert [await status(client, "/v1/messages", *key), await status(client, "/v1/messages")] == [200, 401]
    assert users.asked == 0


def test_the_person_who_starts_it_hears_what_is_not_protected() -> None:
    async def owner_of(*_: object) -> int | None:
        return None

    assert Guard(keyless=Keyless(owner_of=owner_of)).warnings() == ()
    assert Guard(keys=["s3cret"], keyless=Keyless()).warnings() == ()
    [unknown] = Guard(keyless=Keyless()).warnings()
    assert "every request except /healthz and /readyz is refused" in unknown
    [published] = Guard(keyless=Keyless(owner_of=owner_of, is_published=True)).warnings()
    assert "every request except /healthz and /readyz is refused. Set TIELINE_KEY" in published


async def test_a_system_that_reveals_no_users_serves_no_request_without_a_key() -> None:
    connection = AsgiConnection({"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 6)})
    with pytest.raises(GatewayError, match="cannot be determined, and the gateway has no key"):
        await Guard(keyless=Keyless()).check_user(connection)
    await Guard(keys=["s3cret"], keyless=Keyless()).check_user(connection)
