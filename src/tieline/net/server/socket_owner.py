"""The user at the other end of a TCP connection within this machine.

Loopback is open to every user, and TCP carries no credentials. Linux tells the owner of a socket to anyone who can name
both of its addresses: through netlink (`sock_diag`, some microseconds), or in the tables under `/proc/net`.
"""

import asyncio
import errno
import socket
import struct
import sys
from pathlib import Path

Address = tuple[str, int]

IS_KNOWN_HERE = sys.platform == "linux"
"""Whether this system tells the owner of a socket at all."""

_SOCK_DIAG = 4
_BY_FAMILY = 20
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
"""Of a netlink message: length, type, flags, sequence number, port."""
_QUERY = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_OWNER = struct.Struct("=II")
"""Uid and inode in the answer."""
_OWNER_AT = _HEADER.size + 64
_ERROR = struct.Struct("=i")
_ABSENT = frozenset((errno.ENOENT, errno.ESTALE))

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_UID, _INODE = 7, 9
"""Columns of these tables."""


async def owner_of(client: Address, server: Address) -> int | None:
    """Return the uid of the process that opened the connection from `client`, or None if that is not known.

    It is not known for a socket that was closed meanwhile: the system names no owner, or root, for those.
    """
    try:
        return ask_netlink(client, server)
    except OSError:
        # A container may forbid netlink. The tables can be long: the event loop does not wait for them.
        return await asyncio.to_thread(search_tables, client, server)


def ask_netlink(client: Address, server: Address) -> int | None:
    """Ask the kernel; raise OSError if it does not answer. It answers before `send` returns, so nothing blocks."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SOCK_DIAG) as netlink:
        netlink.send(_question(client, server))
        answer = netlink.recv(4096)
    if _HEADER.unpack_from(answer)[1] == _BY_FAMILY:
        uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
        return uid if inode else None
    code = -_ERROR.unpack_from(answer, _HEADER.size)[0]
    if code in _ABSENT:
        return None
    raise OSError(code, "sock_diag does not answer")


def _question(client: Address, server: Address) -> bytes:
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
    """The same from the tables under `/proc/net`: slower, but hardly anything forbids it."""
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
    """An address as the tables spell it: words in the byte order of the machine."""
    packed = socket.inet_pton(_family(address), address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _family(address: Address) -> int:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET
