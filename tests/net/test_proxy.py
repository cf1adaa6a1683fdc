"""The way to an upstream: URLs, TLS, the proxies of the environment, and tunnels through them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from tests.each import each
from tests.net.upstream import OK, WAIT, Peer, answering, saying, serving
from tieline.net.client.http import HttpClient, Origin, PipeError, Proxies, Proxy, Timeouts

PATIENT = Timeouts()

# ── origins ──


@pytest.mark.parametrize(
    ("url", "origin", "path", "host_field"),
    [
        ("https://api.example.com", Origin("https", "api.example.com", 443), "", "api.example.com"),
        ("HTTP://API.Example.com:8080/v1/", Origin("http", "api.example.com", 8080), "/v1", "api.example.com:8080"),
        ("http://127.0.0.1:80/a/b", Origin("http", "127.0.0.1", 80), "/a/b", "127.0.0.1"),
        ("https://[::1]:8443", Origin("https", "::1", 8443), "", "[::1]:8443"),
        ("http://[fe80::1]/", Origin("http", "fe80::1", 80), "", "[fe80::1]"),
        ("https://bücher.example", Origin("https", "xn--bcher-kva.example", 443), "", "xn--bcher-kva.example"),
    ],
)
def test_a_base_url_is_an_origin_and_a_path(url: str, origin: Origin, path: str, host_field: str) -> None:
    assert Origin.parse(url) == (origin, path)
    assert origin.host_field == host_field


@each(
    ("url", "complaint"),
    [
        ("", "must begin with http"),
        ("api.example.com", "must begin with http"),
        ("ftp://example.com", "must begin with http"),
        ("https://", "must name a host"),
        ("https://:443", "must name a host"),
        ("https://a b", "spaces or control"),
        ("https://a\r\nb", "spaces or control"),
        ("https://example.com:99999", "host or port"),
        ("https://example.com:x", "host or port"),
        ("https://[::1", "host or port"),
        ("https://exa$mple.com", "not a valid host"),
        ("https://user:secret@example.com", "user name or password"),
        ("https://user:secret@exa$mple.com", "not a valid host"),
        ("https://example.com/?key=1", "must not have a query"),
        ("https://example.com/#x", "a query or a fragment"),
    ],
)
def test_nonsense_is_not_an_origin(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Origin.parse(url)
    assert "secret" not in str(caught.value)


# ── proxies ──

PROXY = Proxy(Origin("http", "proxy", 3128))
OTHER = Proxy(Origin("http", "other", 80))
FAR = Origin("https", "api.example.com", 443)
FAR_PLAIN = Origin("http", "api.example.com", 80)


@each(
    ("env", "plain", "secure"),
    [
        ({}, None, None),
        ({"http_proxy": "http://proxy:3128"}, PROXY, None),
        ({"https_proxy": "proxy:3128"}, None, PROXY),
        ({"HTTPS_PROXY": "http://proxy:3128/"}, None, PROXY),
        ({"HTTP_PROXY": "http://proxy:3128"}, PROXY, None),
        ({"HTTP_PROXY": "http://proxy:3128", "REQUEST_METHOD": "GET"}, None, None),
        ({"http_proxy": "http://proxy:3128", "REQUEST_METHOD": "GET"}, PROXY, None),
        ({"https_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://other"}, None, PROXY),
        ({"all_proxy": "http://proxy:3128"}, PROXY, PROXY),
        ({"ALL_PROXY": "http://proxy:3128", "https_proxy": "http://other"}, PROXY, OTHER),
        ({"ALL_PROXY": "http://proxy:3128", "https_proxy": ""}, PROXY, None),
    ],
)
def test_the_environment_names_the_proxies(env: dict[str, str], plain: Proxy | None, secure: Proxy | None) -> None:
    proxies = Proxies.from_env(env)
    assert (proxies.pick(FAR_PLAIN), proxies.pick(FAR)) == (plain, secure)


@each(
    ("no_proxy", "host", "port", "is_direct"),
    [
        ("", "api.example.com", 443, False),
        ("*", "api.example.com", 443, True),
        ("example.com", "api.example.com", 443, True),
        (".example.com", "api.example.com", 443, True),
        ("*.example.com", "api.example.com", 443, True),
        (".example.com", "example.com", 443, True),
        ("ample.com", "api.example.com", 443, False),
        ("API.Example.com", "api.example.com", 443, True),
        ("other.org, example.com:443", "api.example.com", 443, True),
        ("example.com:80", "api.example.com", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("2.3", "10.1.2.3", 443, False),
        ("[fd00::1]:443", "fd00::1", 443, True),
        ("fd00::1", "fd00::1", 443, True),
        ("nonsense/x", "10.1.2.3", 443, False),
        ("", "localhost", 443, True),
        ("", "api.localhost", 443, True),
        ("", "127.9.9.9", 443, True),
        ("", "::1", 443, True),
    ],
)
def test_no_proxy_and_loopback_are_reached_directly(no_proxy: str, host: str, port: int, is_direct: bool) -> None:
    proxies = Proxies.from_env({"https_proxy": "http://proxy:3128", "no_proxy": no_proxy})
    assert (proxies.pick(Origin("https", host, port)) is None) is is_direct


def test_a_proxy_login_is_decoded_and_never_shown() -> None:
    proxy = Proxies.from_env({"https_proxy": "http://me:s%40cret@proxy:3128"}).https
    assert proxy is not None
    assert proxy.authorization == "Basic bWU6c0BjcmV0"
    assert "bWU6" not in repr(proxy)


@pytest.mark.parametrize("url", ["socks5://me:secret@proxy", "http://me:secret@", "http://me:secret@proxy:x"])
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(url: str) -> None:
    with pytest.raises(ValueError, match=r"^https_proxy: ") as caught:
        Proxies.from_env({"https_proxy": url})
    assert "secret" not in str(caught.value)


# ── TLS ──


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "upstream.example").configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


@pytest.fixture
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def opened(tls: ssl.SSLContext | None = None, proxy: Origin | None = None) -> AsyncIterator[HttpClient]:
    chosen = Proxy(proxy, "Basic bWU6c0BjcmV0") if proxy else None
    client = HttpClient(tls=tls, proxies=Proxies(http=chosen, https=chosen))
    try:
        async with asyncio.timeout(WAIT):
            yield client
    finally:
        await client.aclose()


async def ask(client: HttpClient, origin: Origin, timeouts: Timeouts = PATIENT) -> bytes:
    response = await client.send(origin, "GET", "/", (), timeouts=timeouts)
    return await response.read(1 << 30)


async def test_tls_carries_several_exchanges_on_one_connection(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with serving(answering(OK, OK), server_tls) as upstream, opened(client_tls) as client:
        assert [await ask(client, upstream.origin) for _ in range(2)] == [b"ok"] * 2
        assert upstream.connections == 1


async def test_a_large_body_goes_through_tls_both_ways(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    body = bytes(range(256)) * 8192

    async def script(peer: Peer) -> None:
        heard = (await peer.request()).partition(b"\r\n\r\n")[2]
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(heard) + heard)
        await peer.hung_up()

    async with serving(script, server_tls) as upstream, opened(client_tls) as client:
        response = await client.send(upstream.origin, "POST", "/", (), body)
        assert await response.read(len(body)) == body


async def test_a_certificate_nobody_vouches_for_is_a_tls_failure(server_tls: ssl.SSLContext) -> None:
    async with serving(answering(), server_tls) as upstream, opened() as client:
        with pytest.raises(PipeError, match="certificate") as caught:
            await ask(client, upstream.origin)
        upstream.tasks.clear()
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("connect", "tls", False)


async def test_a_certificate_for_another_name_is_a_tls_failure(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with serving(answering(), server_tls) as upstream, opened(client_tls) as client:
        with pytest.raises(PipeError) as caught:
            await ask(client, upstream.origin._replace(host="127.0.0.1"))
        upstream.tasks.clear()
    assert caught.value.reason == "tls"


async def test_an_upstream_that_does_not_speak_tls_is_a_tls_failure(client_tls: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.say(b"HTTP/1.1 400 plain\r\n\r\n")
        await peer.hung_up()

    async with serving(script) as upstream, opened(client_tls) as client:
        with pytest.raises(PipeError) as caught:
            await ask(client, upstream.origin._replace(scheme="https"))
    assert (caught.value.phase, caught.value.reason) == ("connect", "tls")


async def test_a_handshake_that_stalls_ends_with_the_connect_timeout(client_tls: ssl.SSLContext) -> None:
    async def script(peer: Peer) -> None:
        await peer.hung_up()

    async with serving(script) as upstream, opened(client_tls) as client:
        with pytest.raises(PipeError) as caught:
            await ask(client, upstream.origin._replace(scheme="https"), Timeouts(connect=0.1))
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("connect", "timeout", False)


@pytest.mark.parametrize("ending", ["cancel", "aclose"])
async def test_a_handshake_that_is_given_up_hangs_up(client_tls: ssl.SSLContext, ending: str) -> None:
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        begun.set()
        await peer.hung_up()
        dropped.set()

    async with serving(script) as upstream, opened(client_tls) as client:
        task = asyncio.create_task(ask(client, upstream.origin._replace(scheme="https")))
        await begun.wait()
        if ending == "cancel":
            task.cancel()
        else:
            await client.aclose()
        with pytest.raises(asyncio.CancelledError if ending == "cancel" else PipeError):
            await task
        await dropped.wait()


# ── through a proxy ──


class Relay:
    """A tiny proxy that understands CONNECT and leads every name to the same upstream."""

    def __init__(self, target: Origin) -> None:
        self.heard: list[bytes] = []
        self._target = target

    async def __call__(self, peer: Peer) -> None:
        self.heard.append(await peer.request())
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target.port)
        await peer.say(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")
        try:
            await asyncio.gather(copy(peer.reader, writer), copy(reader, peer.writer))
        finally:
            writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def test_https_goes_through_a_tunnel(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with serving(answering(OK, OK), server_tls) as upstream:
        relay = Relay(upstream.origin)
        async with serving(relay) as proxy, opened(client_tls, proxy.origin) as client:
            origin = Origin("https", "upstream.example", 443)
            assert [await ask(client, origin) for _ in range(2)] == [b"ok"] * 2
            assert proxy.connections == 1
    assert relay.heard == [
        b"CONNECT upstream.example:443 HTTP/1.1\r\nhost: upstream.example:443\r\n"
        b"proxy-authorization: Basic bWU6c0BjcmV0\r\n\r\n"
    ]


async def test_https_goes_through_a_tunnel_inside_tls(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with (
        serving(answering(OK), server_tls) as upstream,
        serving(Relay(upstream.origin), server_tls) as proxy,
        opened(client_tls, proxy.origin) as client,
    ):
        assert await ask(client, Origin("https", "upstream.example", 443)) == b"ok"


async def test_plain_http_asks_the_proxy_for_the_whole_url() -> None:
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.request())
        await peer.say(OK)

    async with serving(script) as proxy, opened(None, proxy.origin) as client:
        assert await ask(client, Origin("http", "upstream.example", 8080)) == b"ok"
    assert heard[0].startswith(
        b"GET http://upstream.example:8080/ HTTP/1.1\r\nhost: upstream.example:8080\r\n"
        b"proxy-authorization: Basic bWU6c0BjcmV0\r\n"
    )


@each(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 407 Auth\r\nproxy-authenticate: Basic\r\n\r\n", r"refused to connect .* \(status 407\)"),
        (b"", "closed the connection"),
        (b"HTTP/1.1 200", "closed the connection"),
        (b"hello\r\n\r\n", "did not send an HTTP response"),
        (b"HTTP/1.1 200 OK\r\n\r\nextra", "before the connection .* was secured"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 20_000, "too large"),
    ],
)
async def test_a_tunnel_that_does_not_open_is_a_proxy_failure(answer: bytes, complaint: str) -> None:
    async with serving(saying(answer)) as proxy, opened(None, proxy.origin) as client:
        with pytest.raises(PipeError, match=complaint) as caught:
            await ask(client, FAR)
    assert (caught.value.phase, caught.value.reason, caught.value.sent) == ("connect", "proxy", False)
    assert "bWU6" not in caught.value.message


async def test_a_proxy_that_is_not_there_is_a_proxy_failure() -> None:
    async with serving(answering()) as proxy:
        origin = proxy.origin
    async with opened(None, origin) as client:
        for target in (FAR, FAR_PLAIN):
            with pytest.raises(PipeError, match=f"the proxy {origin.authority} cannot be reached") as caught:
                await ask(client, target)
            assert caught.value.reason == "proxy"


async def test_a_tunnel_that_is_given_up_hangs_up() -> None:
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        begun.set()
        await peer.hung_up()
        dropped.set()

    async with serving(script) as proxy, opened(None, proxy.origin) as client:
        task = asyncio.create_task(ask(client, FAR))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await dropped.wait()
