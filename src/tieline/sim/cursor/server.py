"""Serves HTTP/1.1 and HTTP/2 on one port, with or without TLS. The first bytes of a connection show its protocol.

The protocol negotiated by TLS is ignored, because Cursor's own client can use HTTP/2 even if TLS has negotiated another
protocol.
"""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tieline.sim.cursor import http1, http2
from tieline.sim.cursor.http_exchange import Serve

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIRST_BYTES = 60.0
"""Seconds after which a connection without any data is closed."""


class Tls(NamedTuple):
    """The paths of a certificate and its private key."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context


class SimServer:
    """An HTTP server that passes every request to `serve`."""

    def __init__(self, serve: Serve) -> None:
        self.connections = 0
        """Number of connections accepted so far."""
        self.port = 0
        self._serve = serve
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: Tls | ssl.SSLContext | None = None) -> None:
        """Start listening. Port 0 picks a free port."""
        context = tls.context() if isinstance(tls, Tls) else tls
        self._server = await asyncio.start_server(self._connected, host, port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and close every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        self.connections += 1
        try:
            await self._converse(reader, writer)
        except (asyncio.CancelledError, OSError, TimeoutError):
            # Expected: scripts drop connections, and the server cancels them when it stops.
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(FIRST_BYTES):
            first = await reader.read(http1.READ)
            while first and first != PREFACE and PREFACE.startswith(first):
                more = await reader.read(http1.READ)
                if not more:
                    return
                first += more
        speak = http2.converse if first.startswith(PREFACE) else http1.converse
        if first:
            await speak(reader, writer, first, self._serve)
