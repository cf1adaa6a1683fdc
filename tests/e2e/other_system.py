"""Runs `tieline` as on another system: `python other_system.py windows|macos COMMAND…`.

What the other system lacks is removed before the program is imported. Python's own modules and uvicorn are imported
before that, because they are written for the system that they run on.
"""

import asyncio
import ctypes
import http.client  # noqa: F401 - imported before the system changes
import logging.handlers  # noqa: F401 - as above
import multiprocessing  # noqa: F401 - as above
import os
import plistlib  # noqa: F401 - as above
import secrets  # noqa: F401 - as above
import signal
import socket
import sqlite3  # noqa: F401 - as above
import ssl  # noqa: F401 - as above
import struct
import subprocess  # noqa: F401 - as above
import sys
import tempfile  # noqa: F401 - as above
from concurrent.futures import ThreadPoolExecutor  # noqa: F401 - as above
from pathlib import Path
from typing import Any

import uvicorn  # noqa: F401 - as above

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop")
FUNCTIONS = (
    *("chown", "fchmod", "fchown", "fork", "forkpty", "geteuid", "getgid", "getgroups", "getpgid", "getuid"),
    *("initgroups", "killpg", "openpty", "pidfd_open", "setgid", "setpgid", "setsid", "setuid", "waitid"),
)
FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH")
SIGNALS = ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def remove(module: Any, *names: str) -> None:
    for name in names:
        delattr(module, name)


class WindowsLoop(asyncio.SelectorEventLoop):
    """An event loop with the limits of the one on Windows: it watches no files, and handles no signals."""

    def add_reader(self, *_: object) -> None:
        raise NotImplementedError

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError


class WindowsLibrary:
    """The functions of Windows that tell which user a connection comes from.

    If the variable OTHER_USER is set, all connections belong to a process of another user.
    """

    def GetExtendedTcpTable(self, buffer: Any, size: Any, *_: object) -> int:  # noqa: N802 - its name on Windows
        rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
        table = struct.pack("=I", len(rows)) + b"".join(self._row(*row[1:3]) for row in rows)
        if len(table) > size._obj.value:
            size._obj.value = len(table)
            return 122
        ctypes.memmove(buffer, table, len(table))
        return 0

    def _row(self, local: str, remote: str) -> bytes:
        (near, port), (far, other) = (address.split(":") for address in (local, remote))
        process = 1 if "OTHER_USER" in os.environ else os.getpid()
        addresses = (int(near, 16).to_bytes(4, "little"), int(far, 16).to_bytes(4, "little"))
        return struct.pack(
            ">4x4sH2x4sH2x4s",
            addresses[0],
            int(port, 16),
            addresses[1],
            int(other, 16),
            process.to_bytes(4, "little"),
        )

    def OpenProcess(self, _: object, __: object, process: Any) -> int:  # noqa: N802 - its name on Windows
        return int(process.value)

    def OpenProcessToken(self, process: Any, _: object, token: Any) -> int:  # noqa: N802 - its name on Windows
        token._obj.value = process.value
        return 1

    def GetTokenInformation(self, token: Any, _: object, buffer: Any, *__: object) -> int:  # noqa: N802 - as above
        identifier = b"S-%010d" % token.value
        ctypes.memmove(ctypes.addressof(buffer) + 16, identifier, len(identifier))
        ctypes.memmove(buffer, struct.pack("=Q", ctypes.addressof(buffer) + 16), 8)
        return 1

    def GetLengthSid(self, _: object) -> int:  # noqa: N802 - its name on Windows
        return 12

    def CloseHandle(self, _: object) -> int:  # noqa: N802 - its name on Windows
        return 1


def become_windows() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # makes its import fail
    remove(os, *(name for name in FUNCTIONS if hasattr(os, name)), *FLAGS)
    remove(signal, *SIGNALS)
    remove(socket, "AF_NETLINK")  # AF_UNIX stays: asyncio needs it here
    os.supports_dir_fd = set()
    asyncio.ProactorEventLoop = WindowsLoop  # type: ignore[attr-defined]  # exists on Windows only
    ctypes.WinDLL = lambda *_, **__: Library()  # type: ignore[attr-defined]  # exists on Windows only
    sys.platform = "win32"


class Library:
    """A library whose functions have attributes that can be set, such as the type of their result."""

    def __init__(self) -> None:
        functions = WindowsLibrary()
        for name in dir(WindowsLibrary):
            if name[0].isupper():
                setattr(self, name, self._function(getattr(functions, name)))

    @staticmethod
    def _function(method: Any) -> Any:
        def call(*arguments: object) -> Any:
            return method(*arguments)

        return call


def become_macos() -> None:
    remove(os, "O_PATH", "pidfd_open")
    remove(socket, "AF_NETLINK")
    sys.platform = "darwin"


def main() -> int:
    {"windows": become_windows, "macos": become_macos}[sys.argv[1]]()
    from tieline.cli.main import main as tieline  # noqa: PLC0415 - on the other system

    return tieline(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
