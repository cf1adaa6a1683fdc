"""The connections under two-way streams: how many, for how long, through what, and how they end."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
from h2.errors import ErrorCodes
from h2.events import PingReceived
from h2.settings import SettingCodes

from tests.each import each
from tests.net.h2_server import begin, body_of, echo, facts, frame, hold, serving_h2
from tests.net.test_proxy import Relay
from tests.net.upstream import WAIT, Peer, saying, serving, until
from tieline.net.client.proxy import Proxy
from tieline.net.h2 import connection
from tieline.net.h2.client import Http2Client, Origin, PipeError, Proxies, Timeouts

SETTINGS = frame(0x4, 0, 0)


@asynccontextmanager
async def opened(
    connections: int = 32,
    streams: int = 100,
    ping_after: float = 30.0,
    ping_wait: float = 15.0,
    idle_keep: float = 60.0,
    tls: ssl.SSLContext | None = None,
    proxy: Origin | None = None,
) -> AsyncIterator[Http2Client]:
    chosen = Proxy(proxy) if proxy else None
    client = Http2Client(
        tls=tls,
        proxies=Proxies(http=chosen, https=chosen),
        connections_per_origin=connections,
        streams_per_connection=streams,
        ping_after=ping_after,
        ping_wait=ping_wait,
        idle_keep=idle_keep,
    )
    try:
        async with asyncio.timeout(WAIT):
            yield client
    finally:
        await client.aclose()


async def exchange(client: Http2Client, origin: Origin, message: bytes = b"hello") -> bytes:
    stream = await begin(client, origin)
    await stream.send(message)
    stream.end()
    return await body_of(stream)


# ── how many ──


async def test_streams_share_a_connection() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        messages = [b"%d" % number * 1000 for number in range(64)]
        assert await asyncio.gather(*(exchange(client, upstream.origin, message) for message in messages)) == messages
        assert await exchange(client, upstream.origin) == b"hello"
        assert len(upstream.peers) == 1


async def test_an_upstream_gets_no_more_streams_than_it_takes() -> None:
    async with serving_h2(hold, streams=2) as upstream, opened(connections=1) as client:
        opening = [asyncio.create_task(begin(client, upstream.origin)) for _ in range(5)]
        await until(lambda: len(upstream.calls) == 2)
        for number in range(5):
            stream = await opening[number]
            assert [task.done() for task in opening[number + 2 :]] == [False] * (3 - number)
            stream.close()
        assert len(upstream.peers) == 1
        await until(lambda: len(upstream.calls) == 5)


@pytest.mark.parametrize(("theirs", "ours"), [(2, 100), (100, 2)])
async def test_more_connections_are_dialled_when_those_open_are_full(theirs: int, ours: int) -> None:
    async with serving_h2(hold, streams=theirs) as upstream, opened(connections=3, streams=ours) as client:
        streams = await asyncio.gather(*(begin(client, upstream.origin) for _ in range(6)))
        await until(lambda: len(upstream.calls) == 6)
        assert sorted(len(peer.calls) for peer in upstream.peers) == [2, 2, 2]
        with pytest.raises(PipeError) as caught:
            await begin(client, upstream.origin, Timeouts(pool=0.02))
        assert facts(caught.value) == ("connect", "busy", False)
        for stream in streams:
            stream.close()


async def test_the_oldest_connection_is_filled_first() -> None:
    async with serving_h2(hold) as upstream, opened(streams=2) as client:
        streams = [await begin(client, upstream.origin) for _ in range(4)]
        streams[0].close()
        streams.append(await begin(client, upstream.origin))
        await until(lambda: len(upstream.calls) == 5)
        assert [len(peer.calls) for peer in upstream.peers] == [3, 2]


async def test_somebody_who_is_cancelled_while_waiting_takes_no_room() -> None:
    async with serving_h2(hold) as upstream, opened(connections=1, streams=1) as client:
        first = await begin(client, upstream.origin)
        second, third = (asyncio.create_task(begin(client, upstream.origin)) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        first.close()
        (await third).close()
        with pytest.raises(asyncio.CancelledError):
            await second
        await until(lambda: len(upstream.calls) == 2)


async def test_somebody_who_is_cancelled_when_it_is_their_turn_gives_it_back() -> None:
    async with serving_h2(hold) as upstream, opened(connections=1, streams=1) as client:
        first = await begin(client, upstream.origin)
        second, third = (asyncio.create_task(begin(client, upstream.origin)) for _ in range(2))
        await asyncio.sleep(0)
        first.close()
        second.cancel()
        (await third).close()
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_settings_may_change_at_any_time() -> None:
    async with serving_h2(hold, streams=1, window=10) as upstream, opened(connections=1) as client:
        first = await begin(client, upstream.origin)
        await until(lambda: bool(upstream.calls))
        waiting = asyncio.create_task(begin(client, upstream.origin))
        sending = asyncio.create_task(first.send(bytes(20)))
        await until(lambda: first.sent == 10)
        assert not waiting.done()
        upstream.peers[0].change({SettingCodes.MAX_CONCURRENT_STREAMS: 2, SettingCodes.INITIAL_WINDOW_SIZE: 20})
        await sending
        second = await waiting
        upstream.peers[0].change({SettingCodes.INITIAL_WINDOW_SIZE: 5})
        await until(lambda: second.queued == 0 and bool(upstream.peers[0].calls.get(3)))
        for stream in (first, second):
            stream.close()


async def test_a_connection_is_replaced_before_its_numbers_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LAST_STREAM_ID", 3)
    async with serving_h2(echo) as upstream, opened() as client:
        for _ in range(5):
            assert await exchange(client, upstream.origin) == b"hello"
        assert [len(peer.calls) for peer in upstream.peers] == [2, 2, 1]
        await until(lambda: upstream.peers[0].is_gone)


# ── goodbyes ──


async def test_after_a_goodbye_accepted_streams_go_on_and_new_ones_go_elsewhere() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        kept, refused = await begin(client, upstream.origin), await begin(client, upstream.origin)
        await kept.send(b"before")
        assert await kept.chunk() == b"before"
        await refused.status()
        upstream.peers[0].goaway(kept.number)
        with pytest.raises(PipeError, match="refused the stream") as caught:
            await refused.chunk()
        assert facts(caught.value) == ("body", "refused", False)
        for message in (b"after", b"x" * 200_000):
            await kept.send(message)
            heard = b""
            while len(heard) < len(message):
                heard += await kept.chunk()
            assert heard == message
        assert await exchange(client, upstream.origin) == b"hello"
        assert [len(peer.calls) for peer in upstream.peers] == [2, 1]
        assert not upstream.peers[0].is_gone
        kept.end()
        assert await kept.chunk() == b""
        await until(lambda: upstream.peers[0].is_gone)


async def test_a_goodbye_in_two_steps_refuses_nobody_in_the_first() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.status()
        upstream.peers[0].goaway(2**31 - 1)
        upstream.peers[0].goaway(stream.number)
        await stream.send(b"still")
        assert await stream.chunk() == b"still"
        stream.close()


async def test_a_goodbye_to_an_idle_connection_closes_it() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        await exchange(client, upstream.origin)
        upstream.peers[0].goaway(1)
        await until(lambda: upstream.peers[0].is_gone)
        assert await exchange(client, upstream.origin) == b"hello"
        assert len(upstream.peers) == 2


async def test_the_reason_of_a_goodbye_is_told_when_the_connection_ends() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await stream.status()
        upstream.peers[0].goaway(stream.number, ErrorCodes.ENHANCE_YOUR_CALM, b"too_many_pings")
        await stream.send(b"heard")
        assert await stream.chunk() == b"heard"
        upstream.peers[0].cut()
        with pytest.raises(PipeError, match=r"enhance your calm: too_many_pings"):
            await stream.chunk()


async def test_a_goodbye_may_ask_for_the_older_protocol() -> None:
    async with serving_h2(hold) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: bool(upstream.calls))
        upstream.peers[0].goaway(0, ErrorCodes.HTTP_1_1_REQUIRED)
        with pytest.raises(PipeError, match=r"HTTP/1\.1") as caught:
            await stream.status()
    assert facts(caught.value) == ("connect", "protocol", False)


async def test_those_who_wait_are_served_elsewhere_after_a_goodbye() -> None:
    async with serving_h2(hold) as upstream, opened(connections=1, streams=1) as client:
        first = await begin(client, upstream.origin)
        await until(lambda: bool(upstream.calls))
        waiting = asyncio.create_task(begin(client, upstream.origin))
        await asyncio.sleep(0)
        upstream.peers[0].goaway(first.number)
        second = await waiting
        await until(lambda: len(upstream.peers) == 2)
        assert first.error is None
        first.close()
        second.close()


# ── signs of life ──


async def test_a_silent_connection_is_kept_while_it_answers_pings() -> None:
    async with serving_h2(echo) as upstream, opened(ping_after=0.01) as client:
        stream = await begin(client, upstream.origin)
        await stream.status()
        await until(lambda: sum(isinstance(event, PingReceived) for event in upstream.peers[0].events) >= 3)
        await stream.send(b"alive")
        assert await stream.chunk() == b"alive"
        stream.close()


async def test_a_connection_that_answers_no_ping_is_dead() -> None:
    async def script(peer: Peer) -> None:
        await peer.say(SETTINGS)
        await peer.hung_up()

    async with serving(script) as upstream, opened(ping_after=0.02, ping_wait=0.02) as client:
        stream = await begin(client, upstream.origin)
        with pytest.raises(PipeError, match="did not reply to a ping") as caught:
            await stream.chunk()
    assert facts(caught.value) == ("first_byte", "timeout", True)


async def test_the_pings_of_an_upstream_are_answered() -> None:
    async with serving_h2(hold) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        await until(lambda: bool(upstream.calls))
        upstream.peers[0].h2.ping(b"8 bytes!")
        upstream.peers[0].flush()
        await until(lambda: upstream.peers[0].pongs == 1)
        stream.close()


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    async with serving_h2(echo) as upstream, opened(idle_keep=0.02) as client:
        assert await exchange(client, upstream.origin) == b"hello"
        await until(lambda: upstream.peers[0].is_gone)
        stream = await begin(client, upstream.origin)
        await stream.send(b"again")
        assert await stream.chunk() == b"again"
        assert len(upstream.peers) == 2
        stream.close()


# ── those who do not speak HTTP/2 ──


@each(
    ("said", "expected", "words"),
    [
        (b"HTTP/1.1 464 \r\ncontent-length: 0\r\n\r\n", ("connect", "protocol", False), r"HTTP/1\.1 \(status 464\)"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", ("connect", "protocol", False), r"HTTP/1\.0 \(status 400\)"),
        (b"HTTP/1.1 4", ("connect", "protocol", False), "did not respond with HTTP/2"),
        (b"HTTP/one and a half", ("connect", "protocol", False), "did not respond with HTTP/2"),
        (b"\x15\x03\x03\x00\x02\x02\x16 and so on", ("connect", "protocol", False), "did not respond with HTTP/2"),
        (frame(0x6, 0, 0, bytes(8)), ("connect", "protocol", False), "did not respond with HTTP/2"),
        (frame(0x4, 1, 0), ("connect", "protocol", False), "did not respond with HTTP/2"),
        (b"", ("connect", "reset", True), "without sending HTTP/2"),
        (b"\x00\x00", ("connect", "reset", True), "without sending HTTP/2"),
    ],
)
async def test_an_upstream_of_another_protocol_is_told_apart(
    said: bytes, expected: tuple[str, str, bool], words: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"SM\r\n\r\n")
        with suppress(ConnectionError):
            await peer.say_each_byte(said)

    async with serving(script) as upstream, opened() as client:
        stream = await begin(client, upstream.origin)
        with pytest.raises(PipeError, match=words) as caught:
            await stream.status()
        assert facts(caught.value) == expected
        stream.close()


async def test_those_who_wait_for_an_upstream_of_another_protocol_hear_of_it() -> None:
    async with serving(saying(b"HTTP/1.1 400 No\r\n\r\n")) as upstream, opened() as client:
        opening = [asyncio.create_task(begin(client, upstream.origin)) for _ in range(3)]
        stream = await opening[0]
        errors = await asyncio.gather(stream.status(), *opening[1:], return_exceptions=True)
        assert [facts(error) for error in errors if isinstance(error, PipeError)] == [
            ("connect", "protocol", False)
        ] * 3
        assert upstream.connections == 1


async def test_a_name_that_cannot_be_asked_for_fails_everybody_who_waits() -> None:
    async with opened() as client:
        with pytest.raises(PipeError, match="cannot be") as caught:
            await begin(client, Origin("http", "x" * 100 + ".example", 80))
    assert (caught.value.phase, caught.value.sent) == ("connect", False)


async def test_nobody_listening_fails_everybody_who_waits() -> None:
    async with serving_h2(hold) as upstream:
        origin = upstream.origin
    async with opened() as client:
        errors = await asyncio.gather(*(begin(client, origin) for _ in range(3)), return_exceptions=True)
    assert [facts(error) for error in errors if isinstance(error, PipeError)] == [("connect", "refused", False)] * 3


# ── TLS and proxies ──


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "upstream.example").configure_cert(context)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("protocols", [("h2",), ("http/1.1",), ()], ids=["h2", "http/1.1", "none"])
async def test_http2_is_spoken_whatever_the_handshake_chose(authority: trustme.CA, protocols: tuple[str, ...]) -> None:
    tls = server_tls(authority, *protocols)
    async with serving_h2(echo, tls=tls) as upstream, opened(tls=client_tls(authority)) as client:
        body = bytes(300_000)
        assert await exchange(client, upstream.origin, body) == body
        assert upstream.calls[0].headers[":scheme"] == "https"
        chosen = upstream.peers[0].writer.get_extra_info("ssl_object").selected_alpn_protocol()
        assert chosen == ("h2" if protocols == ("h2",) else None)


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure(authority: trustme.CA) -> None:
    async with serving_h2(echo, tls=server_tls(authority)) as upstream, opened() as client:
        with pytest.raises(PipeError, match="certificate") as caught:
            await begin(client, upstream.origin)
    assert facts(caught.value) == ("connect", "tls", False)


async def test_a_handshake_refused_for_offering_http2_says_so() -> None:
    no_application_protocol = b"\x15\x03\x03\x00\x02\x02\x78"

    async def script(peer: Peer) -> None:
        await peer.reader.read(1024)
        await peer.say(no_application_protocol)

    async with serving(script) as upstream, opened() as client:
        with pytest.raises(PipeError, match="does not support HTTP/2") as caught:
            await begin(client, upstream.origin._replace(scheme="https", host="localhost"))
    assert facts(caught.value) == ("connect", "protocol", False)


async def test_a_handshake_that_stalls_ends_with_the_connect_timeout(authority: trustme.CA) -> None:
    async def script(peer: Peer) -> None:
        await peer.hung_up()

    async with serving(script) as upstream, opened(tls=client_tls(authority)) as client:
        with pytest.raises(PipeError) as caught:
            await begin(client, upstream.origin._replace(scheme="https"), Timeouts(connect=0.05))
    assert facts(caught.value) == ("connect", "timeout", False)


async def test_https_goes_through_a_tunnel(authority: trustme.CA) -> None:
    async with serving_h2(echo, tls=server_tls(authority, "h2")) as upstream:
        relay = Relay(upstream.origin)
        async with serving(relay) as proxy, opened(tls=client_tls(authority), proxy=proxy.origin) as client:
            origin = Origin("https", "upstream.example", 443)
            body = bytes(200_000)
            assert await exchange(client, origin, body) == body
            assert await exchange(client, origin) == b"hello"
            assert proxy.connections == 1
        assert relay.heard == [b"CONNECT upstream.example:443 HTTP/1.1\r\nhost: upstream.example:443\r\n\r\n"]


async def test_a_tunnel_that_does_not_open_is_a_proxy_failure() -> None:
    async with serving(saying(b"HTTP/1.1 403 No\r\n\r\n")) as proxy, opened(proxy=proxy.origin) as client:
        with pytest.raises(PipeError, match="status 403") as caught:
            await begin(client, Origin("https", "upstream.example", 443))
    assert facts(caught.value) == ("connect", "proxy", False)


async def test_plain_http2_is_not_sent_to_a_proxy_that_would_read_it() -> None:
    async with opened(proxy=Origin("http", "proxy.example", 3128)) as client:
        with pytest.raises(PipeError, match=r"through the proxy proxy\.example:3128") as caught:
            await begin(client, Origin("http", "upstream.example", 80))
    assert facts(caught.value) == ("connect", "proxy", False)


# ── closing time ──


async def test_closing_the_client_ends_everything_at_once() -> None:
    async with serving_h2(hold, window=10) as upstream, opened(connections=1, streams=2) as client:
        stream, other = await begin(client, upstream.origin), await begin(client, upstream.origin)
        await until(lambda: len(upstream.calls) == 2)
        under_way = [
            asyncio.create_task(work)
            for work in (stream.status(), stream.send(bytes(20)), other.chunk(), begin(client, upstream.origin))
        ]
        await until(lambda: stream.sent == 10)
        await client.aclose()
        errors = await asyncio.gather(*under_way, return_exceptions=True)
        assert [error.reason for error in errors if isinstance(error, PipeError)] == ["reset", "reset", "reset", "busy"]
        for origin in (upstream.origin, Origin("http", "127.0.0.1", 1)):
            with pytest.raises(PipeError, match="closed"):
                await begin(client, origin)
        await client.aclose()


async def test_closing_the_client_ends_a_dial(authority: trustme.CA) -> None:
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        begun.set()
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream, opened(tls=client_tls(authority)) as client:
        opening = asyncio.create_task(begin(client, upstream.origin._replace(scheme="https")))
        await begun.wait()
        await client.aclose()
        with pytest.raises(PipeError, match="closed"):
            await opening
        await dropped.wait()


async def test_a_dial_goes_on_for_the_others_when_one_is_cancelled() -> None:
    async with serving_h2(echo) as upstream, opened() as client:
        first, second = (asyncio.create_task(exchange(client, upstream.origin)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == b"hello"
        assert len(upstream.peers) == 1
        with pytest.raises(asyncio.CancelledError):
            await first
