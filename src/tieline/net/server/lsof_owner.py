"""Determines with the program `lsof` whether a TCP connection on this machine comes from this user (macOS).

`lsof` is part of macOS. It lists the sockets of this user's processes, but not those of other users. It takes some tens
of milliseconds, once per connection.
"""

import asyncio
import contextlib
import shutil
from asyncio.subprocess import DEVNULL, PIPE

Address = tuple[str, int]

PLACES = "/usr/sbin:/usr/bin"
"""System folders that may contain the program. The user's PATH is not searched."""
TIMEOUT = 10.0
"""Seconds after which a lookup is given up."""
MAX_PROCESSES = 4
MAX_OUTPUT = 1 << 20


class LsofLookup:
    """Recognises connections from the user `uid`, who must be the user that runs this process."""

    def __init__(self, uid: int, program: str | None = None) -> None:
        self._uid = uid
        self._program = program or shutil.which("lsof", path=PLACES) or ""
        self._slots = asyncio.Semaphore(MAX_PROCESSES)

    async def __call__(self, client: Address, server: Address) -> int | None:
        """Return the uid if the connection from `client` is this user's; otherwise None."""
        wanted = f"n{_shown(client)}->{_shown(server)}".encode()
        async with self._slots:
            output = await self._run(client[1])
        return self._uid if wanted in output.split(b"\n") else None

    async def _run(self, port: int) -> bytes:
        """Return the list of this user's connections with this port at either end."""
        # -nP: numeric addresses and ports; -w: no warnings; -a: all conditions must hold; -Fn: machine-readable names.
        arguments = ("-nPwa", "-u", str(self._uid), f"-iTCP:{port}", "-Fn")
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env={"LC_ALL": "C"}
            )
        except OSError:
            return b""
        try:
            async with asyncio.timeout(TIMEOUT):
                output = await process.stdout.read(MAX_OUTPUT) if process.stdout is not None else b""
                await process.wait()
        except TimeoutError:
            return b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return output


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
