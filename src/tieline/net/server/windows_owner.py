"""Determines whether a TCP connection on this machine comes from the user that runs the gateway (Windows).

Windows lists all users' connections with the ids of the processes that own them. A process that this user may not
examine is assumed to belong to another user.
"""

import asyncio
import ctypes
import os
import socket
import struct
from typing import Any

Address = tuple[str, int]

THIS_USER = 1
OTHER_USER = 2
"""Windows has no numeric user ids; these two numbers stand for this user and for any other user."""

_ALL_WITH_PROCESS = 5
_ERROR_INSUFFICIENT_BUFFER = 122
_ATTEMPTS = 5
"""The table may grow between the call that returns its size and the call that returns its content."""
_QUERY_PROCESS = 0x1000
_QUERY_TOKEN = 0x0008
_TOKEN_USER = 1
_COUNT = struct.Struct("=I")
_ROW_V4 = struct.Struct("=4x4sH2x4sH2xI")
"""A connection: local address and port, remote address and port, process. The ports are in network byte order."""
_ROW_V6 = struct.Struct("=16s4xH2x16s4xH2x4xI")


async def owner_of(client: Address, server: Address) -> int | None:
    """Return THIS_USER or OTHER_USER for the connection from `client`, or None if there is no such connection."""
    return await asyncio.to_thread(_owner, client, server)


def _owner(client: Address, server: Address) -> int | None:
    try:
        family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
        process = find_process(_table(family), client, server)
        if process is None:
            return None
        return THIS_USER if _user(process) == _user(os.getpid()) else OTHER_USER
    except PermissionError:
        return OTHER_USER
    except OSError:
        return None


def find_process(table: bytes, client: Address, server: Address) -> int | None:
    """Return the id of the process that owns the client's end of a connection, or None if there is none in the table.

    `table` is a table of connections in the format of `GetExtendedTcpTable`. Raise OSError if an address is not valid.
    """
    family, row = (socket.AF_INET6, _ROW_V6) if ":" in client[0] else (socket.AF_INET, _ROW_V4)
    (local, near), (remote, far) = (
        (socket.inet_pton(family, host), socket.htons(port)) for host, port in (client, server)
    )
    end = _COUNT.size + _COUNT.unpack_from(table)[0] * row.size
    for found in row.iter_unpack(table[_COUNT.size : end]):
        if found[:4] == (local, near, remote, far):
            return int(found[4]) or None  # 0: the connection is closed and belongs to no process
    return None


def _library(name: str) -> Any:
    return ctypes.WinDLL(name, use_last_error=True)  # type: ignore[attr-defined]  # exists on Windows only


def _failure() -> OSError:
    error: OSError = ctypes.WinError(ctypes.get_last_error())  # type: ignore[attr-defined]  # exists on Windows only
    return error


def _table(family: int) -> bytes:
    """Return the table of all connections. Raise OSError if the system does not provide it."""
    query = _library("iphlpapi").GetExtendedTcpTable
    size = ctypes.c_ulong(1 << 16)
    for _ in range(_ATTEMPTS):
        buffer = ctypes.create_string_buffer(size.value)
        code = query(buffer, ctypes.byref(size), False, ctypes.c_ulong(family), _ALL_WITH_PROCESS, ctypes.c_ulong(0))
        if code == 0:
            return buffer.raw
        if code != _ERROR_INSUFFICIENT_BUFFER:
            raise OSError(f"GetExtendedTcpTable failed with error {code}")
    raise OSError("the table of connections grows too fast")


def _user(process: int) -> bytes:
    """Return the security identifier of a process's user. Raise PermissionError if the process may not be examined."""
    kernel, security = _library("kernel32"), _library("advapi32")
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = kernel.OpenProcess(ctypes.c_ulong(_QUERY_PROCESS), False, ctypes.c_ulong(process))
    if not handle:
        raise _failure()
    token = ctypes.c_void_p()
    try:
        if not security.OpenProcessToken(ctypes.c_void_p(handle), ctypes.c_ulong(_QUERY_TOKEN), ctypes.byref(token)):
            raise _failure()
        try:
            return _token_user(security, token)
        finally:
            kernel.CloseHandle(token)
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))


def _token_user(security: Any, token: ctypes.c_void_p) -> bytes:
    buffer = ctypes.create_string_buffer(256)  # holds the longest identifier
    size = ctypes.c_ulong()
    if not security.GetTokenInformation(token, _TOKEN_USER, buffer, ctypes.c_ulong(len(buffer)), ctypes.byref(size)):
        raise _failure()
    # The buffer begins with a pointer to the identifier.
    identifier = ctypes.c_void_p.from_buffer(buffer)
    return ctypes.string_at(identifier.value or 0, security.GetLengthSid(identifier))
