"""Whose a local connection is, as the system tells it."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from tieline.net.server.socket_owner import Address, owner_of, query_netlink, search_tables

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the owner of a socket")

NOBODY = 65534
AS_NOBODY = """
import encodings.idna, os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with socket.create_connection((sys.argv[1], int(sys.argv[2]))):
    sys.stdin.read()
"""

WAYS = pytest.mark.parametrize("look", [query_netlink, search_tables])
HOSTS = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
Look = Callable[[Address, Address], int | None]


@contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    family: Literal[socket.AddressFamily.AF_INET6, socket.AddressFamily.AF_INET]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield server


def ends(accepted: socket.socket) -> tuple[Address, Address]:
    return accepted.getpeername()[:2], accepted.getsockname()[:2]


@WAYS
@HOSTS
def test_a_connection_of_this_process_is_ours(host: str, look: Look) -> None:
    with listening(host) as server, socket.create_connection(server.getsockname()[:2]):
        accepted, _ = server.accept()
        with accepted:
            assert look(*ends(accepted)) == os.geteuid()


@WAYS
@HOSTS
def test_a_client_that_has_closed_its_socket_has_no_owner(host: str, look: Look) -> None:
    """The system names root as the owner of such a socket: nobody may gain by sending a request and leaving."""
    with listening(host) as server:
        with socket.create_connection(server.getsockname()[:2]) as client:
            client.sendall(b"POST /")
        accepted, _ = server.accept()
        with accepted:
            assert look(*ends(accepted)) is None


@WAYS
def test_a_connection_that_does_not_exist_has_no_owner(look: Look) -> None:
    assert look(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


@WAYS
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_connection_of_another_user_is_theirs(look: Look) -> None:
    with listening("127.0.0.1") as server:
        host, port = server.getsockname()
        client = subprocess.Popen([sys.executable, "-c", AS_NOBODY, host, str(port)], stdin=subprocess.PIPE)  # noqa: S603 - our own program
        try:
            server.settimeout(60)
            accepted, _ = server.accept()
            with accepted:
                assert look(*ends(accepted)) == NOBODY
        finally:
            client.communicate(timeout=60)


async def test_the_tables_help_where_netlink_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("no netlink here")

    monkeypatch.setattr("tieline.net.server.socket_owner.query_netlink", forbidden)
    with listening("127.0.0.1") as server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        with accepted:
            assert await owner_of(*ends(accepted)) == os.geteuid()
