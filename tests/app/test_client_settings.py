"""Settings files of clients are changed with a backup, and restored byte for byte."""

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.each import each
from tieline.app.client_settings import ChangedSince, SettingsChanges, find_file, plan_change
from tieline.app.config import ConfigError
from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import Client, Connection, SettingsFile, UnsafeChange
from tieline.clients.settings_text import new_text

CONNECTION = Connection(url="http://127.0.0.1:18741", model="up/model")
OTHER = Connection(url="http://127.0.0.1:18741", model="up/other-model")
CLIENTS_WITH_FILE = [client for client in CLIENTS.values() if client.settings is not None]
OLD: Mapping[str, str] = {
    "json": '{\n  // mine: ü\n  "other": {"a": 1,}\n}\n',
    "toml": '# mine: ü\nother = 1\n\n[table]\na = "b"\n',
    "yaml": "# mine: ü\nother: 1\n",
}
LIST = "# mine: ü\n- model_id: other\n"


def settings_of(client: Client) -> SettingsFile:
    assert client.settings is not None
    return client.settings


def old_contents(client: Client) -> dict[str, bytes]:
    text = LIST if client.id == "llm" else OLD[settings_of(client).format]
    plain = text.encode()
    return {
        "plain": plain,
        "CRLF": plain.replace(b"\n", b"\r\n"),
        "BOM": b"\xef\xbb\xbf" + plain,
        "no final newline": plain.rstrip(b"\n"),
        "blank lines at the end": plain + b"\n \n\n",
        "empty": b"",
        "configured before": new_text(settings_of(client), OTHER).encode(),
    }


CASES = [(client, name) for client in CLIENTS_WITH_FILE for name in old_contents(client)]


@each(("client", "kind"), CASES, ids=lambda value: value.id if isinstance(value, Client) else value)
def test_undo_restores_every_byte_and_the_mode(tmp_path: Path, client: Client, kind: str) -> None:
    home = tmp_path / client.id / kind
    env = {"HOME": str(home)}
    file = settings_of(client)
    path = find_file(file, env)
    path.parent.mkdir(parents=True)
    old = old_contents(client)[kind]
    path.write_bytes(old)
    path.chmod(0o640)
    change = plan_change(file, CONNECTION, env)
    changes = SettingsChanges(client.id, env)
    changes.apply(change)
    written = path.read_bytes()
    assert b"up/model" in written
    assert written.startswith(b"\xef\xbb\xbf") == (kind == "BOM")
    if kind == "CRLF":
        assert written.count(b"\n") == written.count(b"\r\n")
    if kind not in ("empty", "configured before"):
        assert "mine: ü".encode() in written
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert changes.undo() == path
    assert path.read_bytes() == old
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert changes.undo() is None


@each("client", CLIENTS_WITH_FILE, ids=lambda client: client.id)
def test_without_a_file_undo_leaves_nothing(tmp_path: Path, client: Client) -> None:
    home = tmp_path / client.id
    home.mkdir()
    state = tmp_path / "state"
    env = {"HOME": str(home), "XDG_STATE_HOME": str(state)}
    file = settings_of(client)
    changes = SettingsChanges(client.id, env)
    changes.apply(plan_change(file, CONNECTION, env))
    path = find_file(file, env)
    assert path.read_text("utf-8") == new_text(file, CONNECTION)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert changes.undo() == path
    assert list(home.iterdir()) == []
    assert [path for path in state.rglob("*") if path.is_file()] == []


CODEX = settings_of(CLIENTS["codex"])


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def path(env: dict[str, str]) -> Path:
    path = find_file(CODEX, env)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"other = 1\n")
    return path


def test_a_link_stays_a_link(env: dict[str, str], path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "codex.toml"
    target.parent.mkdir()
    path.rename(target)
    path.symlink_to(target)
    changes = SettingsChanges("codex", env)
    changes.apply(plan_change(CODEX, CONNECTION, env))
    assert path.is_symlink()
    assert b"up/model" in target.read_bytes()
    changes.undo()
    assert path.is_symlink()
    assert target.read_bytes() == b"other = 1\n"


def test_the_old_content_is_kept_outside_and_private(env: dict[str, str], path: Path) -> None:
    SettingsChanges("codex", env).apply(plan_change(CODEX, CONNECTION, env))
    kept = Path(env["HOME"]) / ".local" / "state" / "tieline" / "configured" / "codex.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["config.toml"]


def test_undo_refuses_to_discard_later_changes(env: dict[str, str], path: Path) -> None:
    changes = SettingsChanges("codex", env)
    changes.apply(plan_change(CODEX, CONNECTION, env))
    with path.open("ab") as file:
        file.write(b"# later\n")
    with pytest.raises(ChangedSince) as refused:
        changes.undo()
    assert refused.value.change.new == b"other = 1\n"
    assert path.read_bytes().endswith(b"# later\n")
    changes.undo(force=True)
    assert path.read_bytes() == b"other = 1\n"


def test_two_changes_in_a_row_are_undone_together(env: dict[str, str], path: Path) -> None:
    changes = SettingsChanges("codex", env)
    changes.apply(plan_change(CODEX, CONNECTION, env))
    changes.apply(plan_change(CODEX, OTHER, env))
    assert b"up/other-model" in path.read_bytes()
    changes.undo()
    assert path.read_bytes() == b"other = 1\n"
    assert changes.undo() is None


def test_changes_by_the_user_in_between_survive_the_first_undo(env: dict[str, str], path: Path) -> None:
    changes = SettingsChanges("codex", env)
    changes.apply(plan_change(CODEX, CONNECTION, env))
    edited = path.read_bytes() + b"# by the user\n"
    path.write_bytes(edited)
    changes.apply(plan_change(CODEX, OTHER, env))
    changes.undo()
    assert path.read_bytes() == edited
    with pytest.raises(ChangedSince):
        changes.undo()


def test_a_file_that_the_user_has_restored_needs_no_force(env: dict[str, str], path: Path) -> None:
    changes = SettingsChanges("codex", env)
    changes.apply(plan_change(CODEX, CONNECTION, env))
    path.write_bytes(b"other = 1\n")
    assert changes.undo() == path


def test_a_file_that_changes_while_the_user_decides(env: dict[str, str], path: Path) -> None:
    change = plan_change(CODEX, CONNECTION, env)
    path.write_bytes(b"other = 2\n")
    with pytest.raises(ConfigError, match="has just been changed"):
        SettingsChanges("codex", env).apply(change)
    assert path.read_bytes() == b"other = 2\n"


@each("content", [b"\xff\xfe", b"other = ", b"model_providers = 1"])
def test_what_is_not_understood_is_not_changed(env: dict[str, str], path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UnsafeChange):
        plan_change(CODEX, CONNECTION, env)
    assert path.read_bytes() == content


def test_a_folder_instead_of_a_file(env: dict[str, str], path: Path) -> None:
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        plan_change(CODEX, CONNECTION, env)


def test_where_the_file_is(tmp_path: Path) -> None:
    opencode = settings_of(CLIENTS["opencode"])
    home = {"HOME": str(tmp_path)}
    assert find_file(opencode, home) == tmp_path / ".config" / "opencode" / "opencode.json"
    other = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    other.parent.mkdir(parents=True)
    other.touch()
    assert find_file(opencode, home) == other
    assert find_file(opencode, {**home, "OPENCODE_CONFIG": "/etc/oc.json"}) == Path("/etc/oc.json")
    assert find_file(opencode, {**home, "XDG_CONFIG_HOME": "relative"}) == other
    with pytest.raises(ConfigError, match="HOME"):
        find_file(opencode, {})
