"""The static files of the page, served from memory with an ETag and a strict Content-Security-Policy."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tieline.frontends.http import Endpoint, Exchange


def policy(ancestors: str) -> str:
    """Return the Content-Security-Policy of the page. `ancestors` are the origins that may frame it, or `'none'`."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "font-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            f"frame-ancestors {ancestors}",
        )
    )


HEADERS = (
    (b"content-security-policy", policy("'none'").encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""Headers of the page's static files and API responses, in addition to those that the server always sends."""

FOLDER = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/traffic": "traffic.html", "/connect": "connect.html", "/usage": "usage.html"}
KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".webmanifest": b"application/manifest+json",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
}

PLACEHOLDER = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tieline</title></head>
<body><h1>Tieline</h1><p>The gateway is running, but this installation does not include the web page.</p></body></html>
"""


class StaticFile(NamedTuple):
    """A static file with its content type and ETag."""

    data: bytes
    kind: bytes
    tag: bytes

    @classmethod
    def of(cls, name: str, data: bytes) -> "StaticFile":
        """Return the file with this name and content. The suffix of the name determines the content type."""
        suffix = name[name.rfind(".") :]
        return cls(data, KINDS[suffix], f'"{hashlib.sha256(data).hexdigest()[:20]}"'.encode())

    async def serve(self, exchange: Exchange) -> None:
        """Send the file, or status 304 if the browser already has it."""
        headers = [*HEADERS, (b"cache-control", b"no-cache"), (b"etag", self.tag)]
        if self.tag in exchange.headers.get(b"if-none-match", b"").split(b", "):
            await exchange.respond(304, b"", self.kind, headers)
        else:
            await exchange.respond(200, self.data, self.kind, headers)


def static_files() -> dict[str, StaticFile]:
    """Read all static files of this installation. Return them by name."""
    found = {name: StaticFile.of(name, item.read_bytes()) for name, item in _found(FOLDER)}
    for name in PAGES.values():
        found.setdefault(name, StaticFile.of(name, PLACEHOLDER))
    return found


def static_names() -> list[str]:
    """Return the names of all static files except the HTML pages, without reading the files."""
    return [name for name, _ in _found(FOLDER) if name not in PAGES.values()]


def front(page: Endpoint, hello: Endpoint) -> Endpoint:
    """Return an endpoint that calls `page` for browsers, and `hello` for other clients."""

    async def serve(exchange: Exchange) -> None:
        is_browser = b"text/html" in exchange.headers.get(b"accept", b"")
        await (page if is_browser else hello)(exchange)

    return serve


def _found(folder: Path, prefix: str = "") -> Iterable[tuple[str, Path]]:
    if not folder.is_dir():
        return
    for item in folder.iterdir():
        if item.is_dir():
            yield from _found(item, f"{prefix}{item.name}/")
        elif item.name[item.name.rfind(".") :] in KINDS:
            yield f"{prefix}{item.name}", item
