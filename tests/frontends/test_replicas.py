"""Tests for the decision which requests are forwarded, and for what happens if another replica fails."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tieline.frontends.guard import Guard
from tieline.frontends.http import ELSEWHERE, AsgiCycle, Exchange
from tieline.frontends.http_app import HttpApp, Route
from tieline.frontends.replicas import HOST_HEADER, SECRET_HEADER, PeerFailed, PeerRequest, PrivateApp, Replicas
from tieline.frontends.responses.forwarded_turn import ForwardedTurn
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.errors import GatewayError
from tieline.model.request import Request
from tieline.tasks import Tasks
from tieline.wire.framing.sse import LIMIT
from tieline.wire.openai_chat import render_error

BODY = b'{"model": "m"}'


class Answer:
    """The response of a replica: parts of the body, or an error in the middle of it."""

    def __init__(
        self, *parts: bytes | Exception, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        self.status = status
        self.headers = headers
        self._parts = list(parts)
        self.is_closed = False

    async def chunk(self) -> bytes:
        part = self._parts.pop(0) if self._parts else b""
        if isinstance(part, Exception):
            raise part
        return part

    def close(self) -> None:
        self.is_closed = True


class Others:
    """The other replicas: `owners` are their tags by call id."""

    def __init__(self, answer: Answer | Exception | None = None, **owners: str) -> None:
        self.is_draining = False
        self.agents: str | None = None
        self.sent: list[tuple[str, PeerRequest]] = []
        self._owners = owners
        self._answer = answer or Answer(b"answer")

    def owner(self, identity: str) -> str | None:
        return self._owners.get(identity)

    def with_agents(self, model: str) -> str | None:
        return self.agents if model.startswith("acp/") else None

    async def send(self, tag: str, request: PeerRequest) -> Answer:
        self.sent.append((tag, request))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Client:
    """A request of a client, and what it received."""

    def __init__(self, *headers: tuple[bytes, bytes], is_forwarded: bool = False) -> None:
        self.sent: list[Any] = []
        self.has_left = asyncio.Event()
        self._body = [{"type": "http.request", "body": BODY, "more_body": False}]
        scope = {
            "method": "POST",
            "path": "/v1/chat/completions",
            "query_string": b"a=b",
            "headers": [(b"host", b"gateway.example"), *headers],
        }
        cycle = AsgiCycle(scope, self._receive, self._send)
        self.exchange = Exchange(cycle, 1024, keeps_body=True, is_forwarded=is_forwarded)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return self._body.pop()
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent if "body" in message)


def answering(*call_ids: str, model: str = "m", words: str = "") -> Request:
    """A request whose newest results answer these calls."""
    calls = tuple(ToolCall(id=call_id, name="f") for call_id in call_ids)
    results = tuple(ToolResult(call_id=call_id) for call_id in call_ids)
    more = (Text(text=words),) if words else ()
    messages = (
        Message(role="user", parts=(Text(text="Hello"),)),
        Message(role="assistant", parts=calls or (Text(text="Hi"),)),
        Message(role="user", parts=(*results, *more)),
    )
    return Request(model=model, messages=messages)


async def forwarded(others: Others, client: Client, request: Request) -> bool:
    await client.exchange.body()
    replicas = Replicas(others, Tasks(), lambda owner, call_id: call_id == "held")
    return await replicas.forward_turn(client.exchange, request)


async def test_a_request_goes_whole_to_the_owner_of_its_newest_result() -> None:
    others, client = (
        Others(one="aaaa", two="bbbb"),
        Client((b"authorization", b"Bearer key"), (b"x-a", b"1"), (b"x-a", b"2")),
    )
    assert await forwarded(others, client, answering("one", "two", words="go"))
    ((tag, sent),) = others.sent
    assert (tag, sent.method, sent.target, sent.body) == ("bbbb", "POST", "/v1/chat/completions?a=b", BODY)
    assert list(sent.headers) == [
        (b"authorization", b"Bearer key"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (HOST_HEADER, b"gateway.example"),
    ]
    assert client.body == b"answer"


@pytest.mark.parametrize("calls", [(), ("unknown",)])
async def test_other_requests_are_served_here(calls: tuple[str, ...]) -> None:
    others = Others(one="aaaa")
    assert not await forwarded(others, Client(), answering(*calls))
    assert others.sent == []


async def test_headers_of_one_connection_and_of_replicas_are_not_forwarded() -> None:
    others = Others(one="aaaa")
    client = Client((b"connection", b"keep-alive"), (SECRET_HEADER, b"guess"), (HOST_HEADER, b"evil"), (b"te", b"x"))
    await forwarded(others, client, answering("one"))
    assert list(others.sent[0][1].headers) == [(HOST_HEADER, b"gateway.example")]


async def test_the_response_is_passed_on_with_its_status_and_headers() -> None:
    headers = [(b"content-type", b"text/plain"), (b"retry-after", b"7"), (b"transfer-encoding", b"chunked")]
    answer, client = Answer(b"no", b"pe", status=429, headers=headers), Client()
    assert await forwarded(Others(answer, one="aaaa"), client, answering("one"))
    start, *_ = client.sent
    assert (start["status"], list(start["headers"])) == (429, headers[:2])
    assert (client.body, answer.is_closed) == (b"nope", True)


@pytest.mark.parametrize(
    "answer", [PeerFailed("gone"), Answer(status=421, headers=[ELSEWHERE])], ids=["gone", "stopping"]
)
async def test_a_request_is_served_here_if_the_owner_fails_before_the_first_byte(answer: Any) -> None:
    client = Client()
    assert not await forwarded(Others(answer, one="aaaa"), client, answering("one"))
    assert client.sent == []
    assert not client.exchange.begun


async def test_a_response_that_breaks_off_stays_incomplete() -> None:
    answer, client = Answer(b"half", PeerFailed("gone")), Client()
    assert await forwarded(Others(answer, one="aaaa"), client, answering("one"))
    assert client.body == b"half"
    assert client.sent[-1]["more_body"]


async def test_a_forwarded_request_is_not_forwarded_again() -> None:
    others = Others(one="aaaa")
    assert not await forwarded(others, Client(is_forwarded=True), answering("one"))
    assert others.sent == []


@pytest.mark.parametrize(("calls", "is_refused"), [(("held",), False), (("gone",), True), ((), True)])
async def test_a_stopping_replica_takes_only_forwarded_requests_for_its_own_runs(
    calls: tuple[str, ...], is_refused: bool
) -> None:
    others, client = Others(), Client(is_forwarded=True)
    others.is_draining = True
    assert await forwarded(others, client, answering(*calls)) is is_refused
    assert [message["status"] for message in client.sent if "status" in message] == [421] * is_refused


async def test_requests_for_agents_go_to_the_replica_that_has_the_workspace() -> None:
    others = Others()
    others.agents = "aaaa"
    assert await forwarded(others, Client(), answering(model="acp/claude"))
    assert not await forwarded(others, Client(), answering(model="cursor/demo"))


async def test_a_client_that_leaves_ends_the_request_to_the_owner() -> None:
    class Endless(Answer):
        async def chunk(self) -> bytes:
            if not self._parts:
                client.has_left.set()
                await asyncio.Event().wait()
            return await super().chunk()

    answer, client = Endless(b"first"), Client()
    async with asyncio.timeout(10):
        assert await forwarded(Others(answer, one="aaaa"), client, answering("one"))
    assert answer.is_closed


async def test_forwarded_requests_are_counted_until_they_end() -> None:
    counts: list[int] = []

    class Watching(Answer):
        async def chunk(self) -> bytes:
            counts.append(replicas.forwarding)
            return await super().chunk()

    client = Client()
    replicas = Replicas(Others(Watching(b"answer"), one="aaaa"), Tasks(), lambda *_: False)
    await client.exchange.body()
    assert await replicas.forward_turn(client.exchange, answering("one"))
    assert (counts, replicas.forwarding) == ([1, 1], 0)


async def test_a_client_on_a_websocket_is_told_that_an_event_is_too_large() -> None:
    event = b'{"type": "response.created"}'
    turn = ForwardedTurn(Answer(b"data: %b\n\n" % event, b"data: " + bytes(LIMIT)))
    assert await anext(turn) == [event]
    with pytest.raises(GatewayError, match="cannot be passed on: an event exceeds the limit"):
        await anext(turn)


# ── The private listener ─────────────────────────────────────────────────────────────────────────


async def serve(*headers: tuple[bytes, bytes]) -> tuple[list[Any], list[Exchange]]:
    """Send a request to the private listener. Return what it answered, and what the application received."""
    received: list[Exchange] = []

    async def endpoint(exchange: Exchange) -> None:
        received.append(exchange)
        await exchange.respond(200, b"{}")

    app = HttpApp(
        {"/path": {"GET": Route(endpoint, render_error)}},
        guard=Guard(keys=["key"], hosts=["gateway.example"]),
        limit=1024,
        fallback=lambda _: render_error,
    )
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("no body is read")

    scope = {"type": "http", "method": "GET", "path": "/path", "headers": [(b"host", b"10.0.0.1"), *headers]}
    await PrivateApp(app, lambda given: given == b"secret")(scope, receive, send)
    return sent, received


KEY = (b"authorization", b"Bearer key")


@pytest.mark.parametrize("headers", [(), ((SECRET_HEADER, b"guess"),), ((SECRET_HEADER, b""),)])
async def test_a_request_without_the_secret_does_not_reach_the_application(headers: Any) -> None:
    sent, received = await serve(KEY, *headers)
    assert (sent[0]["status"], received) == (403, [])


async def test_a_request_with_the_secret_still_needs_the_key_of_the_client() -> None:
    sent, received = await serve((SECRET_HEADER, b"secret"))
    assert (sent[0]["status"], received) == (401, [])


async def test_the_application_sees_the_request_of_the_client() -> None:
    """Its host name, but neither the secret nor the checks that the other replica has made."""
    headers = ((SECRET_HEADER, b"secret"), (HOST_HEADER, b"elsewhere.example"), (b"origin", b"https://any.example"))
    sent, (exchange,) = await serve(KEY, *headers)
    assert sent[0]["status"] == 200
    assert exchange.is_forwarded
    assert dict(exchange.header_fields) == {
        b"host": b"elsewhere.example",
        b"authorization": b"Bearer key",
        b"origin": b"https://any.example",
    }
