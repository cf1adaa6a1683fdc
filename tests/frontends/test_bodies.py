"""Limits on bodies: how many JSON values one may have, and how much is held at once."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.net.served import Served, served
from tieline.frontends.bodies import (
    COUNT_ABOVE,
    MAX_VALUES,
    VALUE_MARKS,
    StructureScan,
    check_values,
    occurrences,
)
from tieline.frontends.guard import Guard
from tieline.frontends.http import MIB, TRIM_ABOVE, BodyBudget, Exchange
from tieline.frontends.http_app import HttpApp, Route
from tieline.model.errors import GatewayError
from tieline.wire import anthropic, openai_chat

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text('a,[{"\\é', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(',"\\{', max_size=3), inner, max_size=4),
    max_leaves=20,
)


def structure(value: Any) -> int:
    """How many commas and opening brackets a value is written with."""
    inner = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else max(1, len(inner)) + sum(map(structure, inner))


@given(values, st.lists(st.integers(0, 200), max_size=4))
def test_values_are_counted_wherever_the_text_is_cut(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    scan = StructureScan()
    outside = b"".join(scan.outside_strings(text[start:end]) for start, end in pairwise(places))
    assert occurrences(outside, VALUE_MARKS) == structure(value)


async def test_text_that_looks_like_structure_is_not_counted() -> None:
    text = json.dumps({"model": "m", "text": '[{",\\' * MAX_VALUES}).encode()
    await check_values([text])
    await check_values([text[at : at + 1000] for at in range(0, len(text), 1000)])


@pytest.mark.parametrize("unit", [b"1,", b"[],", b'{"a":1},', b'"",', b'"\\\\",'])
async def test_too_many_values_are_refused(unit: bytes) -> None:
    await check_values([b"[" + unit * (MAX_VALUES // 4) + b"0]"])
    with pytest.raises(GatewayError) as caught:
        await check_values([b"[" + unit * MAX_VALUES + b"0]"])
    assert caught.value.status == 413
    assert "100,000 JSON values" in caught.value.message


async def read(exchange: Exchange) -> None:
    body = await exchange.body()
    await exchange.respond(200, b"%d" % len(body))


def app(bodies: BodyBudget | None = None) -> HttpApp:
    chat, messages = Route(read, openai_chat.render_error), Route(read, anthropic.render_error)
    return HttpApp(
        {"/chat": {"POST": chat}, "/messages": {"POST": messages}},
        guard=Guard(),
        limit=48 * MIB,
        fallback=lambda _: openai_chat.render_error,
        bodies=bodies,
    )


def head(size: int, path: str = "/chat") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/chat", "/messages"])
async def test_a_body_of_too_many_values_is_refused_in_the_dialect_of_its_path(path: str) -> None:
    body = b"[" + b"1," * MAX_VALUES + b"0]"
    assert len(body) > COUNT_ABOVE
    async with served(app()) as server:
        client = await server.connect(head(len(body), path) + body)
        response = await client.response()
    assert response.status == 413
    assert "JSON values" in json.loads(response.body)["error"]["message"]


async def test_all_bodies_together_are_bounded_and_what_was_refused_may_come_again() -> None:
    async with served(app(BodyBudget(4 * MIB))) as server:
        clients = [await server.connect(head(MIB + 1)) for _ in range(6)]
        for client in clients:
            await client.say(b" " * MIB)
        for client in clients:
            await client.say(b" ")
        responses = [await client.response() for client in clients]
        assert {response.status for response in responses} == {200, 503}
        for response in responses:
            if response.status == 503:
                assert int(response.headers["retry-after"]) >= 1
                assert "4 MiB" in json.loads(response.body)["error"]["message"]
        again = await server.connect(head(3 * MIB) + b" " * (3 * MIB))
        assert (await again.response()).status == 200


async def test_a_body_is_held_until_its_request_is_answered() -> None:
    bodies = BodyBudget()
    held = []

    async def answer(exchange: Exchange) -> None:
        await exchange.body()
        held.append(bodies.reserved)
        await exchange.respond(200, b"{}")

    route = Route(answer, openai_chat.render_error)
    application = HttpApp(
        {"/chat": {"POST": route}}, guard=Guard(), limit=MIB, fallback=lambda _: openai_chat.render_error, bodies=bodies
    )
    async with served(application) as server:
        client = await server.connect(head(1000) + b" " * 1000)
        assert (await client.response()).status == 200
    assert (held, bodies.reserved) == ([1000], 0)


def test_memory_is_given_back_after_much_was_held_and_nothing_is_any_more() -> None:
    trimmed: list[int] = []
    bodies = BodyBudget(trim=lambda: trimmed.append(bodies.reserved))
    for sizes in ((1000, 1000), (TRIM_ABOVE, 1000)):
        for size in sizes:
            bodies.reserve(size)
        for size in sizes:
            bodies.release(size)
    assert trimmed == [0]


def test_more_than_fits_is_refused() -> None:
    bodies = BodyBudget(10)
    bodies.reserve(10)
    with pytest.raises(GatewayError) as caught:
        bodies.reserve(1)
    assert (caught.value.status, caught.value.retry_after) == (503, 5.0)
    bodies.release(6)
    with pytest.raises(GatewayError):
        bodies.reserve(6)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


async def leave_in_the_middle(server: Served) -> None:
    client = await server.connect(head(9 * MIB))
    await client.say(b" " * (8 * MIB))
    client.leave()


async def test_the_bodies_of_clients_that_leave_are_freed_at_once() -> None:
    """Also without the garbage collector, which may not run for hours in a gateway that rests."""
    application = app()
    async with served(application) as server:
        with without_collector():
            for _ in range(8):
                await leave_in_the_middle(server)
            server.clients.clear()
            async with asyncio.timeout(60):
                while server.state.connections or server.state.tasks:  # noqa: ASYNC110 - uvicorn looks in the same way
                    await asyncio.sleep(0)
            assert tracemalloc.get_traced_memory()[0] < 8 * MIB
