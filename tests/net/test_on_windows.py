"""Functions of Windows that no other system can simulate: job objects, and the owner of a connection."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.net.programs import IMPATIENT, LIVE, SOON, Presence, gone, output, python
from tieline.net.process.program import Process
from tieline.net.server import windows_owner

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="for Windows only")

ENV = dict(os.environ)
HERE = str(Path.cwd())
SYSTEM = 4
"""The id of the process that runs the drivers, as another user."""


async def test_a_program_reads_and_writes_and_its_status_is_known() -> None:
    process = await Process.start(
        python("import sys; print(input().upper()); sys.exit(3)"), env=ENV, cwd=HERE, merges_stderr=True
    )
    async with asyncio.timeout(SOON):
        await process.send(b"hello\r\n")
        assert (await output(process)).strip() == b"HELLO"
        assert (await process.wait()).status == 3
        await process.aclose()


async def test_what_a_program_started_ends_with_it() -> None:
    child = "import time; connection = live(); time.sleep(600)"
    parent = f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-I", "-S", "-c", {LIVE + child!r}, sys.argv[1]])
        time.sleep(600)
    """
    with Presence() as presence:
        process = await Process.start(python(parent, presence.port), env=ENV, cwd=HERE)
        async with asyncio.timeout(SOON):
            connection = await presence.next()
            await process.aclose(IMPATIENT)
            await gone(connection)


async def test_a_connection_of_this_process_is_this_users() -> None:
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with socket.create_server((host, 0), family=family) as server:
            with socket.create_connection(server.getsockname()[:2]) as client:
                addresses = client.getsockname()[:2], server.getsockname()[:2]
                assert await windows_owner.owner_of(*addresses) == windows_owner.THIS_USER
            assert await windows_owner.owner_of(*addresses) != windows_owner.THIS_USER


def test_a_process_of_the_system_has_another_user() -> None:
    try:
        user = windows_owner._user(SYSTEM)
    except PermissionError:  # its user is not even visible
        user = b""
    assert user != windows_owner._user(os.getpid())
