"""Determines the user at the other end of a TCP connection on this machine.

Every user can connect to loopback, and TCP carries no credentials. Linux reveals the owner of a socket to anyone who
knows its two addresses: through netlink (`sock_diag`, which takes microseconds) and in the tables under `/proc/net`.
For macOS see `lsof_owner.py`, for Windows `windows_owner.py`.
"""

import asyncio
import errno
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

Address = tuple[str, int]

OwnerLookup = Callable[[Address, Address], Awaitable[int | None]]
"""Takes the client's and the server's address; returns the client's uid, or None if it cannot be determined."""

_SOCK_DIAG = 4
_BY_FAMILY = 20
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
"""Header of a netlink message: length, type, flags, sequence number, port."""
_QUERY = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_OWNER = struct.Struct("=II")
"""The uid and the inode of a socket in a netlink reply."""
_OWNER_AT = _HEADER.size + 64
_ERROR = struct.Struct("=i")
_ABSENT = frozenset((errno.ENOENT, errno.ESTALE))

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_UID, _INODE = 7, 9
"""The indexes of these columns in the tables under `/proc/net`."""


def owner_lookup() -> tuple[OwnerLookup, tuple[int, ...]] | None:
    """Return the lookup for this system and the uids to accept (this user's and, on Linux, root's).

    Return None if there is no lookup for this system.
    """
    if sys.platform == "linux":
        return owner_of, (0, os.geteuid())
    if sys.platform == "darwin":
        from tieline.net.server.lsof_owner import LsofLookup  # noqa: PLC0415 - for macOS only

        return LsofLookup(os.geteuid()), (os.geteuid(),)
    if sys.platform == "win32":
        from tieline.net.server import windows_owner  # noqa: PLC0415 - for Windows only

        return windows_owner.owner_of, (windows_owner.THIS_USER,)
    return None


async def owner_of(client: Address, server: Address) -> int | None:
    """Return the uid of the process that opened the connection from `client`, or None if it is unknown.

    The uid is unknown after the client has closed its socket: the system then reports either no owner or root.
    """
    try:
        return query_netlink(client, server)
    except OSError:
        # A container may forbid netlink. The tables can be long, so they are read in a thread.
        return await asyncio.to_thread(search_tables, client, server)


def query_netlink(client: Address, server: Address) -> int | None:
    """Query the kernel for the uid of the owner of the client's socket. Return None if there is no such socket.

    Raise OSError if the kernel does not reply. It replies before `send` returns, so this never blocks.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SOCK_DIAG) as netlink:
        netlink.send(_build_query(client, server))
        reply = netlink.recv(4096)
    if _HEADER.unpack_from(reply)[1] == _BY_FAMILY:
        uid, inode = _OWNER.unpack_from(reply, _OWNER_AT)
        return uid if inode else None
    code = -_ERROR.unpack_from(reply, _HEADER.size)[0]
    if code in _ABSENT:
        return None
    raise OSError(code, "sock_diag failed")


def _build_query(client: Address, server: Address) -> bytes:
    family = _family(client)
    query = b"".join(
        (
            _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE),
            _PORTS.pack(client[1], server[1]),
            socket.inet_pton(family, client[0]).ljust(16, b"\0"),
            socket.inet_pton(family, server[0]).ljust(16, b"\0"),
            b"\0\0\0\0",
            _NO_COOKIE,
        )
    )
    return _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, 1, 1, 0) + query


def search_tables(client: Address, server: Address) -> int | None:
    """Search the tables under `/proc/net` for the owner of the client's socket. Return its uid, or None if not found.

    This is slower than netlink, but is more often permitted in containers.
    """
    table = _TABLES[_family(client) == socket.AF_INET6]
    wanted = f": {_in_table(client)} {_in_table(server)} "
    try:
        with table.open(encoding="ascii") as lines:
            for line in lines:
                if wanted in line:
                    columns = line.split()
                    return int(columns[_UID]) if int(columns[_INODE]) else None
    except (OSError, ValueError, IndexError):
        pass
    return None


def _in_table(address: Address) -> str:
    """Format an address as in the tables under `/proc/net`: 32-bit words in native byte order."""
    packed = socket.inet_pton(_family(address), address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _family(address: Address) -> int:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET
