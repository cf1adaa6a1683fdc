"""Whether a local connection is this user's, as lsof shows it."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.test_socket_owner import AS_NOBODY, HOSTS, ends, listening
from tieline.net.server.lsof_owner import LsofLookup

needs_lsof = pytest.mark.skipif(shutil.which("lsof") is None, reason="lsof is not installed")


@needs_lsof
@HOSTS
async def test_a_connection_of_this_process_is_ours_until_it_is_closed(host: str) -> None:
    look = LsofLookup(os.geteuid())
    with listening(host) as server:
        with socket.create_connection(server.getsockname()[:2]):
            accepted, _ = server.accept()
            assert await look(*ends(accepted)) == os.geteuid()
            assert await look(ends(accepted)[0], ("127.0.0.1", 9)) is None
        addresses = ends(accepted)
        assert await look(*addresses) is None
        accepted.close()


@needs_lsof
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_connection_of_another_user_is_not_ours() -> None:
    with listening("127.0.0.1") as server:
        host, port = server.getsockname()
        client = subprocess.Popen([sys.executable, "-c", AS_NOBODY, host, str(port)], stdin=subprocess.PIPE)  # noqa: S603, ASYNC220 - our own program
        try:
            server.settimeout(60)
            accepted, _ = server.accept()
            with accepted:
                assert await LsofLookup(os.geteuid())(*ends(accepted)) is None
        finally:
            client.communicate(timeout=60)


async def test_without_the_program_no_connection_is_ours(tmp_path: Path) -> None:
    look = LsofLookup(1000, str(tmp_path / "lsof"))
    assert await look(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "lsof"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("tieline.net.server.lsof_owner.TIMEOUT", 0.3)
    assert await LsofLookup(1000, str(program))(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
