"""A substitute for cloudflared and tailscale, run as a program: prints an address as they do, and forwards TCP.

The first argument is the folder in which it writes its process id and its port, and reads what it should do
(`behaviour`); the second is the name of the program that it stands for, and the others are that program's arguments.
"""

import asyncio
import os
import sys
from pathlib import Path

FOLDER, NAME, ARGUMENTS = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
CLOUDFLARED = """\
2026-11-17T10:00:00Z INF Thank you for trying Cloudflare Tunnel. See https://developers.cloudflare.com/cloudflare-one/
2026-11-17T10:00:00Z INF Requesting new quick Tunnel on trycloudflare.com...
2026-11-17T10:00:01Z INF +---------------------------------------------------------------------------------------+
2026-11-17T10:00:01Z INF |  Your quick Tunnel has been created! Visit it at (it may take some time):             |
2026-11-17T10:00:01Z INF |  https://quiet-river-seven-words.trycloudflare.com                                    |
2026-11-17T10:00:01Z INF +---------------------------------------------------------------------------------------+
2026-11-17T10:00:01Z INF Starting tunnel
"""
CLOUDFLARED_FAILURE = """\
2026-11-17T10:00:00Z INF Requesting new quick Tunnel on trycloudflare.com...
failed to request quick Tunnel: Post "https://api.trycloudflare.com/tunnel": dial tcp: lookup failed
"""
TAILSCALE = """\
Available on the internet:

https://box.tail1a2b.ts.net/
|-- proxy http://127.0.0.1:{port}

Press Ctrl+C to exit.
"""
TAILSCALE_WAITING = """\
Funnel is not enabled on your tailnet.
To enable, visit:

         https://login.tailscale.com/f/funnel?node=n1

"""


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def forward(target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    (FOLDER / "port").write_text(str(server.sockets[0].getsockname()[1]))
    if NAME == "cloudflared":
        sys.stderr.write(CLOUDFLARED)
        sys.stderr.flush()
    else:
        sys.stdout.write(TAILSCALE.format(port=target))
        sys.stdout.flush()
    await server.serve_forever()


def main() -> int:
    (FOLDER / "pid").write_text(str(os.getpid()))
    (FOLDER / "environment").write_text("\n".join(sorted(os.environ)))
    *options, last = ARGUMENTS
    expected = ["tunnel", "--no-autoupdate", "--url"] if NAME == "cloudflared" else ["funnel"]
    if options != expected:
        sys.stderr.write(f"unexpected arguments: {ARGUMENTS}\n")
        return 64
    behaviour = (FOLDER / "behaviour").read_text()
    if behaviour == "fail":
        sys.stderr.write(CLOUDFLARED_FAILURE)
        return 1
    if behaviour == "wait":
        sys.stdout.write(TAILSCALE_WAITING)
        sys.stdout.flush()
        asyncio.run(asyncio.Event().wait())
    asyncio.run(forward(int(last.rpartition(":")[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
