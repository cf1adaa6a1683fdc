"""Compressed bodies: decoded as they come although nobody asked for them, and never faster than they are read."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from tests.net.upstream import WAIT, Peer, saying, serving
from tieline.net.client.http import HttpClient, PipeError

PLAIN = b"".join(b"line %d\n" % number for number in range(1000))


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def encoded(name: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (name.encode(), len(body)) + body


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


CASES = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "two members": ("gzip", gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:])),
    "many members": (
        "gzip",
        b"".join(gzip.compress(PLAIN[at : at + 1]) for at in range(len(PLAIN[:3000]))) + gzip.compress(PLAIN[3000:]),
    ),
    "zeros behind it": ("gzip", gzip.compress(PLAIN) + bytes(20)),
    "x-gzip": ("X-GZip", gzip.compress(PLAIN)),
    "zlib": ("deflate", zlib.compress(PLAIN)),
    "raw deflate": ("deflate", raw_deflate(PLAIN)),
    "identity": ("identity", PLAIN),
}


@pytest.mark.parametrize(("name", "body"), CASES.values(), ids=CASES.keys())
async def test_a_compressed_body_is_read_in_the_clear(client: HttpClient, name: str, body: bytes) -> None:
    async with serving(saying(encoded(name, body))) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.read(len(PLAIN)) == PLAIN


@pytest.mark.parametrize(("name", "body"), CASES.values(), ids=CASES.keys())
async def test_a_compressed_body_is_the_same_when_it_comes_byte_by_byte(
    client: HttpClient, name: str, body: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say_each_byte(encoded(name, body))

    async with serving(script) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.read(len(PLAIN)) == PLAIN


async def test_a_compressed_stream_gives_each_flushed_piece_at_once(client: HttpClient) -> None:
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first = compressor.compress(b"one") + compressor.flush(zlib.Z_SYNC_FLUSH)
    last = compressor.compress(b"two") + compressor.flush()
    more = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + first)
        await more.wait()
        await peer.say(last)

    async with serving(script) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.chunk() == b"one"
        more.set()
        assert await response.chunk() == b"two"
        assert await response.chunk() == b""


async def test_a_bomb_unfolds_in_bounded_pieces_and_stops_at_the_limit(client: HttpClient) -> None:
    bomb = gzip.compress(bytes(32 << 20), compresslevel=9)
    async with serving(saying(encoded("gzip", bomb))) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert max([len(await response.chunk()) for _ in range(5)]) <= 256 * 1024
        with pytest.raises(PipeError) as caught:
            await response.read(1 << 20)
    assert caught.value.reason == "too_large"


async def test_output_that_fills_a_piece_exactly_is_complete(client: HttpClient) -> None:
    plain = bytes(512 * 1024)
    async with serving(saying(encoded("gzip", gzip.compress(plain)))) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.read(len(plain)) == plain


REFUSED = {
    "brotli": ("br", b"x", "in the encoding 'br'"),
    "zstandard": ("zstd", b"x", "in the encoding 'zstd'"),
    "twice": ("gzip, gzip", b"x", "in the encoding 'gzip, gzip'"),
    "garbage": ("gzip", b"not gzip at all", "broken gzip body"),
    "cut": ("gzip", gzip.compress(PLAIN)[:-9], "incomplete gzip body"),
    "trailing": ("gzip", gzip.compress(PLAIN) + b"not gzip", "broken gzip body"),
}


@pytest.mark.parametrize(("name", "body", "complaint"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_cannot_be_decoded_is_a_protocol_failure(
    client: HttpClient, name: str, body: bytes, complaint: str
) -> None:
    async with serving(saying(encoded(name, body))) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        with pytest.raises(PipeError, match=complaint) as caught:
            await response.read(1 << 20)
    assert (caught.value.phase, caught.value.reason) == ("body", "protocol")


async def test_an_empty_body_needs_no_decoding(client: HttpClient) -> None:
    async with serving(saying(encoded("br", b""))) as upstream, asyncio.timeout(WAIT):
        response = await client.send(upstream.origin, "GET", "/", ())
        assert await response.read(0) == b""
