"""The scripted model API: it says what it was told, and tells what it was asked."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from tieline.sim.model import Answer, Cut, Framing, Hang, ModelServer, Pause

PATIENCE = 60.0


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_answers_come_in_order_and_requests_are_kept(framing: Framing) -> None:
    async with ModelServer() as upstream, httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client:
        upstream.script("/a", Answer(body=b"1", framing=framing), Answer(status=429, body=b"2", framing=framing))
        first = await client.post("/a?x=1", json={"n": 1}, headers={"X-Key": "k"})
        second = await client.post("/a", content=b"")
        assert [(one.status_code, one.content) for one in (first, second)] == [(200, b"1"), (429, b"2")]
        request = upstream.requests[0]
        assert (request.method, request.path, request.target, request.json) == ("POST", "/a", "/a?x=1", {"n": 1})
        assert request.header("x-key") == "k"
        assert upstream.connections == (2 if framing == "close" else 1)
        assert not request.gone.done()


async def test_a_path_without_a_script_has_its_default_or_is_not_found() -> None:
    async with ModelServer() as upstream, httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client:
        upstream.default("/a", lambda request: Answer(body=request.method.encode()))
        assert (await client.get("/a")).content == b"GET"
        assert (await client.put("/a")).content == b"PUT"
        assert (await client.get("/b")).status_code == 404


async def test_a_chunked_request_is_read_whole() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with ModelServer() as upstream, httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client:
        upstream.default("/a", Answer())
        await client.post("/a", content=pieces())
        await client.post("/a", content=b"three")
        assert [request.body for request in upstream.requests] == [b"one two", b"three"]


async def test_an_answer_waits_at_a_pause() -> None:
    pause = Pause()
    async with ModelServer() as upstream, httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client:
        upstream.script("/a", Answer(chunks=[b"one", pause, b"two"]))
        async with client.stream("GET", "/a") as response:
            given = response.aiter_raw()
            assert response.headers["content-type"] == "text/event-stream"
            assert await anext(given) == b"one"
            await asyncio.wait_for(pause.reached.wait(), PATIENCE)
            pause.set()
            assert await anext(given) == b"two"
        assert not upstream.requests[0].gone.done()


@pytest.mark.parametrize("cut", [Cut(), Cut(reset=True)])
async def test_a_cut_ends_the_connection_in_the_middle(cut: Cut) -> None:
    async with ModelServer() as upstream, httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client:
        upstream.script("/a", Answer(chunks=[b"one", cut, b"never"]), Answer(body=b"again"))
        with pytest.raises(httpx2.TransportError):
            await client.get("/a")
        assert (await client.get("/a")).content == b"again"


async def test_a_client_that_leaves_is_noticed_at_once() -> None:
    async with ModelServer() as upstream:
        upstream.script("/a", Answer(chunks=[b"one", Hang()]))
        async with (
            httpx2.AsyncClient(base_url=upstream.url, timeout=PATIENCE) as client,
            client.stream("GET", "/a") as response,
        ):
            # Kept: an iterator that nobody holds is closed, and the connection with it.
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"one"
            request = await asyncio.wait_for(upstream.arrival(), PATIENCE)
            assert not request.gone.done()
        await asyncio.wait_for(request.gone, PATIENCE)


async def test_a_client_that_leaves_before_the_first_byte_is_noticed_too() -> None:
    pause = Pause()
    async with ModelServer() as upstream:
        _, writer = await asyncio.open_connection(*upstream.url.removeprefix("http://").split(":"))
        upstream.script("/a", Answer(chunks=[pause]))
        writer.write(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n")
        request = await asyncio.wait_for(upstream.arrival(), PATIENCE)
        writer.close()
        await asyncio.wait_for(request.gone, PATIENCE)


async def test_requests_sent_ahead_are_answered_in_turn() -> None:
    async with ModelServer() as upstream:
        reader, writer = await asyncio.open_connection(*upstream.url.removeprefix("http://").split(":"))
        upstream.script("/a", *(Answer(body=text, framing="length") for text in (b"one", b"two")))
        writer.write(b"HEAD /b HTTP/1.1\r\nhost: x\r\n\r\n" + b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
        heads = [await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)]
        for text in (b"one", b"two"):
            heads.append(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE))
            assert await reader.readexactly(3) == text
        assert [head.split()[1] for head in heads] == [b"404", b"200", b"200"]
        writer.close()
