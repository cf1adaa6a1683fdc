"""What the doctor finds out about files, the configuration and the port."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.app.doctor.support import examined
from tieline import __version__
from tieline.app.config import Config
from tieline.app.database.documents import open_store
from tieline.app.database.sqlite import FILE_NAME
from tieline.app.local_gateway import local_gateway
from tieline.sim.model import Answer, Cut, ModelServer

STATE = Path(".local/state/tieline")


async def stored(folder: Path) -> Path:
    """Write a document of a megabyte, and return the file of the store."""
    store = open_store(folder)
    await store.write("shelf", "key", bytes(1 << 20))
    await store.aclose()
    return folder / FILE_NAME


async def test_a_sound_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = await stored(tmp_path / STATE)
    before = path.read_bytes()
    found = await examined(tmp_path)
    assert found["sessions"].status == "ok"
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM document").fetchone() == (1,)


@pytest.mark.parametrize("damage", ["no database at all", "a page of it"])
async def test_a_damaged_database_is_a_problem_and_is_not_touched(damage: str, tmp_path: Path) -> None:
    path = await stored(tmp_path / STATE)
    data = path.read_bytes()
    path.write_bytes(b"nonsense" * 1000 if damage.startswith("no") else data[:4096] + b"\xff" * 8192 + data[12288:])
    before = path.read_bytes()
    found = await examined(tmp_path)
    assert found["sessions"].status == "problem"
    assert str(path) in found["sessions"].text
    assert path.read_bytes() == before


async def test_a_file_that_was_damaged_before_is_mentioned(tmp_path: Path) -> None:
    path = await stored(tmp_path / STATE)
    path.with_suffix(".broken").write_bytes(b"old")
    found = await examined(tmp_path)
    assert found["sessions"].status == "warning"
    assert "sessions.broken" in found["sessions"].fix


async def test_files_that_others_can_read_or_write_are_problems(tmp_path: Path) -> None:
    state = tmp_path / STATE
    path = await stored(state)
    path.chmod(0o644)
    (state / "audit.jsonl").write_text("{}\n")
    (state / "audit.jsonl").chmod(0o640)
    state.chmod(0o777)
    found = await examined(tmp_path)
    assert {name: found[name].fix for name in ("state", "sessions", "audit log")} == {
        "state": f"Check its content, then run `chmod go-w {state}`.",
        "sessions": f"Run `chmod 600 {path}`.",
        "audit log": f"Run `chmod 600 {state / 'audit.jsonl'}`.",
    }


async def test_an_audit_log_that_is_a_link_or_a_folder_is_a_problem(tmp_path: Path) -> None:
    state = tmp_path / STATE
    state.mkdir(parents=True)
    (state / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    assert (await examined(tmp_path))["audit log"].status == "problem"
    (state / "audit.jsonl").unlink()
    (state / "audit.jsonl").mkdir()
    assert (await examined(tmp_path))["audit log"].status == "problem"


def test_nothing_is_created_where_nothing_was(tmp_path: Path) -> None:
    found = asyncio.run(examined(tmp_path))
    assert [finding.name for finding in found.values() if finding.status == "problem"] == []
    assert list(tmp_path.iterdir()) == []


# ── Configuration ────────────────────────────────────────────────────────────────────────────────


async def test_a_wrong_configuration_is_a_problem_and_hides_no_other_check(tmp_path: Path) -> None:
    found = await examined(tmp_path, "[server]\nport = 0\ncolour = 1\n")
    assert found["file"].status == "problem"
    assert "own.toml" in found["file"].text
    assert "colour" in found["file"].text
    assert {"Python", "state", "keyring", "Cursor"} <= set(found)


@pytest.mark.parametrize("folder", [".", ".config"])
async def test_a_local_file_that_is_not_trusted_is_not_used(folder: str, tmp_path: Path) -> None:
    here = tmp_path / folder
    here.mkdir(exist_ok=True)
    (here / "tieline.toml").write_text("nonsense = true\n")
    found = await examined(tmp_path, here=here)
    assert found["local file"].status == "warning"
    assert "tieline trust" in found["local file"].fix
    assert found["file"].status == "ok"
    assert not (tmp_path / ".config" / "tieline").exists()


async def test_names_of_backends_that_are_not_there_are_problems(tmp_path: Path) -> None:
    text = (
        'default_model = "anthropic/x"\n[server]\nport = 0\n[aliases]\n"good" = "demo/scripted"\n"bad-*" = "cursor/*"\n'
    )
    found = await examined(tmp_path, text)
    assert found["default_model"].status == "problem"
    assert found["aliases.bad-*"].status == "problem"
    assert "aliases.good" not in found


# ── Port ─────────────────────────────────────────────────────────────────────────────────────────


def at(url: str) -> str:
    return f"[server]\nport = {url.rpartition(':')[2]}\n"


async def test_a_running_gateway_is_recognised_even_without_its_key(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "other"), "PATH": ""}
    async with local_gateway(Config(), env, always_start=True) as gateway:
        found = await examined(tmp_path, at(gateway.url))
    assert (found["port"].status, found["port"].text) == ("ok", f"Tieline {__version__} is running at {gateway.url}")


async def test_another_version_and_another_program_are_told_apart(tmp_path: Path) -> None:
    async with ModelServer() as server:
        server.script("/api/hello", Answer(body=b'{"service":"tieline","version":"0.0.0"}'))
        older = (await examined(tmp_path, at(server.url)))["port"]
        other = (await examined(tmp_path, at(server.url)))["port"]
    assert (older.status, older.fix) == ("warning", "Restart that gateway.")
    assert (other.status, other.text) == ("problem", f"another program uses {server.url}")
    free = (await examined(tmp_path, at(server.url)))["port"]
    assert (free.status, free.text) == ("ok", f"{server.url} is free")


async def test_a_program_that_hangs_up_is_a_problem(tmp_path: Path) -> None:
    async with ModelServer() as server:
        server.script("/api/hello", Answer(chunks=[Cut()]))
        found = (await examined(tmp_path, at(server.url)))["port"]
    assert found.status == "problem"
    assert "does not answer" in found.text
