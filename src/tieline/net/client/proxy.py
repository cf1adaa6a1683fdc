"""Upstream origins, proxies from the environment, and dialling a connection directly or through a proxy."""

import asyncio
import base64
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from tieline.net.client.response import PipeError, Reason

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_TUNNEL_HEAD = 16 * 1024

_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


class Origin(NamedTuple):
    """The scheme, host and port of an upstream. IPv6 hosts are written without brackets.

    This is a tuple because every request uses it as a dictionary key, and tuples are hashed quickly (in C).
    """

    scheme: Literal["http", "https"]
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> tuple["Origin", str]:
        """Split a base URL into its origin and its path without a trailing slash. Raise ValueError if it is invalid."""
        parts = _split(url)
        if "@" in parts.netloc:
            raise ValueError("a URL must not contain a user name or password")
        if parts.query or parts.fragment:
            raise ValueError(f"a base URL must not have a query or a fragment: {url!r}")
        return _origin_of(parts), parts.path.rstrip("/")

    @property
    def authority(self) -> str:
        """`host:port`, for error messages and CONNECT requests."""
        return f"{self._bracketed}:{self.port}"

    @property
    def host_field(self) -> str:
        """The value of the Host header. It contains the port unless that is the scheme's default port."""
        return self._bracketed if self.port == DEFAULT_PORTS[self.scheme] else self.authority

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True)
class Proxy:
    """The address of a proxy, and the value of Proxy-Authorization if it needs one."""

    origin: Origin
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> "Proxy":
        """Parse a proxy URL. The default scheme is http. Errors do not quote the URL, which may contain a password."""
        parts = _split(url if "://" in url else f"http://{url}", secret=True)
        if parts.username is None:
            return cls(_origin_of(parts))
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return cls(_origin_of(parts), "Basic " + base64.b64encode(login.encode()).decode("ascii"))


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxy for each scheme, and the hosts that are reached directly."""

    http: Proxy | None = None
    https: Proxy | None = None
    bypass: tuple[str, ...] = ()

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Proxies":
        """Read `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`. Lower-case names take precedence.

        Raise ValueError if the URL of a proxy is invalid.
        """
        return cls(
            http=_proxy_from(env, "http_proxy"),
            https=_proxy_from(env, "https_proxy"),
            bypass=tuple(re.split(r"[\s,]+", (_variable(env, "no_proxy") or "").strip().lower())),
        )

    def pick(self, origin: Origin) -> Proxy | None:
        """Return the proxy for an origin, or None for a direct connection."""
        proxy = self.https if origin.scheme == "https" else self.http
        if proxy is None or _is_loopback(origin.host):
            return None
        return None if any(_covers(entry, origin) for entry in self.bypass) else proxy


@dataclass(frozen=True, slots=True)
class UpstreamRoute:
    """An origin, and the proxy through which it is reached, if any."""

    origin: Origin
    proxy: Proxy | None

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy forwards requests itself (plain http) rather than opening a tunnel."""
        return self.proxy is not None and self.origin.scheme == "http"

    @property
    def request_line(self) -> tuple[str, str]:
        """The text before the path in every request head, and the text after it, up to and including the Host header.

        The first text is empty, except for a forwarding proxy, which needs a whole URL in the request line. If such a
        proxy needs the Proxy-Authorization header, the second text contains it as well.
        """
        host = self.origin.host_field
        before, after = "", f" HTTP/1.1\r\nhost: {host}"
        if self.is_forwarded and self.proxy is not None:
            before = f"http://{host}"
            if self.proxy.authorization is not None:
                after += f"\r\nproxy-authorization: {self.proxy.authorization}"
        return before, after


async def dial(
    connection: asyncio.Protocol, route: UpstreamRoute, tls: Callable[[], ssl.SSLContext], handshake_timeout: float
) -> None:
    """Connect `connection` to an upstream, through the route's proxy if there is one.

    Raise PipeError with phase "connect" if that fails.
    """
    try:
        if route.proxy is None:
            await _open(connection, route.origin, tls, handshake_timeout)
        elif route.is_forwarded:
            await _open_proxy(connection, route.proxy, tls, handshake_timeout)
        else:
            await _tunnel(connection, route, route.proxy, tls, handshake_timeout)
    except OSError as error:
        raise _connect_error(error, route.origin) from error


async def _open(
    protocol: asyncio.Protocol, origin: Origin, tls: Callable[[], ssl.SSLContext], handshake_timeout: float
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    context, name, limit = (tls(), origin.host, handshake_timeout) if origin.scheme == "https" else (None, None, None)
    # No happy eyeballs: uvloop rejects the argument, and asyncio leaks the winning socket when the race is cancelled.
    transport, _ = await loop.create_connection(
        lambda: protocol, origin.host, origin.port, ssl=context, server_hostname=name, ssl_handshake_timeout=limit
    )
    return transport


async def _open_proxy(
    protocol: asyncio.Protocol, proxy: Proxy, tls: Callable[[], ssl.SSLContext], handshake_timeout: float
) -> asyncio.Transport:
    try:
        return await _open(protocol, proxy.origin, tls, handshake_timeout)
    except TimeoutError:
        raise
    except OSError as error:
        message = f"the proxy {proxy.origin.authority} cannot be reached: {_connect_error(error, proxy.origin).message}"
        raise PipeError("connect", "proxy", message, sent=False) from error


async def _tunnel(
    connection: asyncio.Protocol,
    route: UpstreamRoute,
    proxy: Proxy,
    tls: Callable[[], ssl.SSLContext],
    handshake_timeout: float,
) -> None:
    target = route.origin.authority
    tunnel = _Tunnel(target, proxy.origin.authority)
    transport = await _open_proxy(tunnel, proxy, tls, handshake_timeout)
    try:
        login = f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        transport.write(f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{login}\r\n".encode("latin-1"))
        await tunnel.opened
        secure = await asyncio.get_running_loop().start_tls(
            transport, connection, tls(), server_hostname=route.origin.host, ssl_handshake_timeout=handshake_timeout
        )
    except BaseException:
        transport.abort()
        raise
    if secure is None:
        raise ConnectionResetError
    connection.connection_made(secure)


class _Tunnel(asyncio.Protocol):
    """Waits for a proxy's response to CONNECT."""

    def __init__(self, target: str, where: str) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._target = target
        self._where = where
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_TUNNEL_HEAD:
                self._refuse("sent a response head that is too large")
            return
        status = re.match(rb"HTTP/1\.[01] (\d{3})(?: |\r\n)", self._head)
        if status is None:
            self._refuse("did not send an HTTP response")
        elif not status[1].startswith(b"2"):
            self._refuse(f"refused to connect to {self._target} (status {status[1].decode()})")
        elif len(self._head) > end + 4:
            self._refuse(f"sent data before the connection to {self._target} was secured")
        elif not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._refuse(f"closed the connection instead of connecting to {self._target}", exc)

    def _refuse(self, complaint: str, cause: Exception | None = None) -> None:
        if not self.opened.done():
            error = PipeError("connect", "proxy", f"the proxy {self._where} {complaint}", sent=False)
            error.__cause__ = cause
            self.opened.set_exception(error)
            # Mark the exception as retrieved: if the caller was cancelled, asyncio would log it as unhandled.
            self.opened.exception()


def _connect_error(error: OSError, origin: Origin) -> PipeError:
    reason: Reason
    match error:
        case TimeoutError():
            reason, text = "timeout", "did not accept the connection in time"
        case socket.gaierror():
            reason, text = "dns", "cannot be found: its name does not resolve"
        case ssl.SSLCertVerificationError():
            reason, text = "tls", f"has a certificate that is not trusted: {error.verify_message}"
        case ssl.SSLError():
            reason, text = "tls", f"failed the TLS handshake: {error.reason or 'unknown reason'}"
        case ConnectionRefusedError():
            reason, text = "refused", "refused the connection: nothing listens there"
        case ConnectionError():
            reason, text = "reset", "closed the connection before it was ready"
        case _:
            reason, text = "refused", f"cannot be reached: {error.strerror or 'no address accepted the connection'}"
    return PipeError("connect", reason, f"{origin.authority} {text}", sent=False)


def _split(url: str, *, secret: bool = False) -> SplitResult:
    shown = "" if secret or "@" in url else f": {url!r}"
    if _UNPRINTABLE.search(url):
        raise ValueError(f"a URL must not contain spaces or control characters{shown}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"not a URL, its host or port cannot be read{shown}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError(f"a URL must begin with http:// or https://{shown}")
    if not parts.hostname:
        raise ValueError(f"a URL must name a host{shown}")
    if not _is_host(parts.hostname):
        raise ValueError(f"not a valid host name{shown}")
    return parts


def _origin_of(parts: SplitResult) -> Origin:
    scheme = cast("Literal['http', 'https']", parts.scheme)
    port = DEFAULT_PORTS[scheme] if parts.port is None else parts.port
    host = parts.hostname or ""
    return Origin(scheme, host if host.isascii() else host.encode("idna").decode("ascii"), port)


def _is_host(host: str) -> bool:
    if ":" in host:
        return "%" not in host and _address(host) is not None
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return len(ascii_host) <= 253 and _HOST_NAME.fullmatch(ascii_host) is not None


def _variable(env: Mapping[str, str], name: str) -> str | None:
    value = env.get(name)
    if value is not None:
        return value
    if name == "http_proxy" and "REQUEST_METHOD" in env:
        # In a CGI process HTTP_PROXY is the client's "Proxy:" header, which must not be trusted.
        return None
    return env.get(name.upper())


def _proxy_from(env: Mapping[str, str], name: str) -> Proxy | None:
    value = _variable(env, name)
    if value is None:
        name, value = "all_proxy", _variable(env, "all_proxy")
    if not value or not value.strip():
        return None
    try:
        return Proxy.parse(value.strip())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    name = host.removesuffix(".")
    address = _address(name)
    return name == "localhost" or name.endswith(".localhost") or (address is not None and address.is_loopback)


def _covers(entry: str, origin: Origin) -> bool:
    """Return whether a `no_proxy` entry matches an origin.

    An entry is `*`, a domain (which includes its subdomains), an address or a network. It may end with a port.
    """
    if entry == "*":
        return True
    address = _address(origin.host)
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, port = _split_port(entry)
    if port and port != str(origin.port):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*").removeprefix(".").removesuffix(".")
    host = origin.host.removesuffix(".")
    return bool(name) and (host == name or host.endswith("." + name))


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
