"""Where a Cursor login is kept, who can read it there, and taking over that of Cursor's own client."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.backends.cursor_logins import NOW
from tieline.backends.credentials import Keyring, find_keyring, no_keyring
from tieline.backends.cursor.login_import import import_login, places
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens
from tieline.model.errors import GatewayError

LOGIN = LoginTokens(access="secret-a", refresh="secret-r", obtained=NOW)
NEWER = LoginTokens(access="secret-b", refresh="secret-r", obtained=NOW + 1)

posix = pytest.mark.skipif(os.name != "posix", reason="files have no modes there")


class FakeRing:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


class LockedRing(FakeRing):
    """A keyring that refuses, and repeats what it was given."""

    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError("locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise RuntimeError(f"cannot keep {password}")

    def delete_password(self, service: str, username: str) -> None:
        raise RuntimeError("locked")


class HangingRing(FakeRing):
    """A keyring that asks its owner for a password, and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.asked = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self.released.wait(30)
        return None

    def set_password(self, service: str, username: str, password: str) -> None:
        self.get_password(service, username)


@pytest.fixture
def hanging() -> Iterator[HangingRing]:
    ring = HangingRing()
    yield ring
    ring.released.set()


def giving(ring: Keyring) -> Callable[[], Keyring]:
    return lambda: ring


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def load_error(store: LoginStore) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await store.load()
    return caught.value


# ── the file ──


async def test_what_was_saved_is_loaded_by_another_program(tmp_path: Path) -> None:
    store = LoginStore(tmp_path / "a" / "b", keyring=no_keyring)
    assert await store.load() is None
    assert await store.save(LOGIN) == str(store.path)
    assert await LoginStore(tmp_path / "a" / "b", keyring=no_keyring).load() == LOGIN
    await store.save(NEWER)
    assert await store.load() == NEWER


@posix
async def test_only_the_owner_can_read_the_file_and_its_directory(tmp_path: Path) -> None:
    store = LoginStore(tmp_path / "kept", keyring=no_keyring)
    old = os.umask(0)
    try:
        await store.save(LOGIN)
    finally:
        os.umask(old)
    assert (mode(store.path), mode(store.path.parent)) == (0o600, 0o700)
    assert names(store.path.parent) == [store.path.name]


@posix
@pytest.mark.parametrize("wrong", [0o644, 0o640, 0o604, 0o660])
async def test_a_file_that_others_can_read_is_closed_to_them_with_a_warning(tmp_path: Path, wrong: int) -> None:
    warnings: list[str] = []
    store = LoginStore(tmp_path, keyring=no_keyring, warn=warnings.append)
    await store.save(LOGIN)
    store.path.chmod(wrong)
    assert await store.load() == LOGIN
    assert mode(store.path) == 0o600
    assert str(store.path) in warnings[0]
    assert await store.load() == LOGIN
    assert len(warnings) == 1


async def test_the_file_says_which_version_wrote_it(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    await store.save(LOGIN)
    assert msgspec.json.decode(store.path.read_bytes())["version"] == 1
    store.path.write_bytes(b'{"version": 2, "login": {"something": "else"}}')
    assert "newer Tieline" in (await load_error(store)).message


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"login": {}}',
        b'{"version": 1}',
        b'{"version": 1, "login": {"access": 5}}',
        b'{"version": 1, "login": {"access": "secret\\n-a"}}',
        b"[" * 200_000,
    ],
)
async def test_a_broken_file_says_what_to_do_and_can_be_replaced(tmp_path: Path, contents: bytes) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    store.path.write_bytes(contents)
    store.path.chmod(0o600)
    error = await load_error(store)
    assert error.kind == "unauthorized"
    assert str(store.path) in error.message
    assert "tieline login cursor" in error.message
    assert "secret" not in error.message
    await store.save(LOGIN)
    assert await store.load() == LOGIN


async def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    store.path.mkdir()
    assert str(store.path) in (await load_error(store)).message


@posix
async def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    await store.save(LOGIN)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert "belongs to another user" in (await load_error(store)).message


@posix
async def test_a_pipe_in_place_of_the_file_does_not_hang(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    os.mkfifo(store.path)
    assert "is not a file" in (await load_error(store)).message


async def test_a_directory_that_cannot_be_made_is_told_without_the_tokens(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    store = LoginStore(tmp_path / "taken", keyring=no_keyring)
    with pytest.raises(GatewayError) as caught:
        await store.save(LOGIN)
    assert str(store.path) in caught.value.message
    assert "secret" not in caught.value.message


async def test_a_failed_save_leaves_the_old_login_and_nothing_else(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    store.path.mkdir()
    (store.path / "full").touch()
    with pytest.raises(GatewayError):
        await store.save(LOGIN)
    assert names(tmp_path) == [store.path.name]


async def test_clearing_removes_the_file_even_a_broken_one(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=no_keyring)
    assert await store.clear() is False
    store.path.write_bytes(b"{")
    assert await store.clear() is True
    assert names(tmp_path) == []


# ── the keyring ──


async def test_a_keyring_is_used_if_there_is_one_and_no_file_is_left(tmp_path: Path) -> None:
    await LoginStore(tmp_path, keyring=no_keyring).save(LOGIN)
    ring = FakeRing()
    store = LoginStore(tmp_path, keyring=giving(ring))
    assert await store.load() == LOGIN
    assert "keyring" in await store.save(NEWER)
    assert names(tmp_path) == ["cursor-login.keyring"]
    assert (tmp_path / "cursor-login.keyring").read_bytes() == b""
    assert await store.load() == NEWER
    assert await store.clear() is True
    assert ring.held == {}
    assert names(tmp_path) == []
    assert await store.clear() is False


async def test_the_newer_of_two_logins_counts(tmp_path: Path) -> None:
    ring = FakeRing()
    store = LoginStore(tmp_path, keyring=giving(ring))
    await store.save(LOGIN)
    await LoginStore(tmp_path, keyring=no_keyring).save(NEWER)
    assert await store.load() == NEWER


async def test_a_keyring_that_fails_is_replaced_by_the_file_with_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = LoginStore(tmp_path, keyring=giving(LockedRing()), warn=warnings.append)
    assert await store.save(LOGIN) == str(store.path)
    assert "RuntimeError" in warnings[0]
    assert "secret" not in warnings[0]
    assert await store.load() == LOGIN
    assert await store.clear() is True


async def test_a_keyring_that_fails_does_not_pass_for_an_empty_one(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, keyring=giving(LockedRing()))
    error = await load_error(store)
    assert "keyring" in error.message
    assert "tieline login cursor" in error.message
    with pytest.raises(GatewayError, match=r"^the system's keyring failed .*: the Cursor login may be left there\.$"):
        await store.clear()


async def test_a_keyring_that_hangs_is_left_to_itself_and_asked_no_more(tmp_path: Path, hanging: HangingRing) -> None:
    warnings: list[str] = []
    store = LoginStore(tmp_path, keyring=giving(hanging), warn=warnings.append, timeout=0.05)
    assert "did not answer in 0.05 s" in (await load_error(store)).message
    assert await store.save(LOGIN) == str(store.path)
    assert await store.load() == LOGIN
    assert hanging.asked == 1
    assert len(warnings) == 1


def test_a_hanging_keyring_does_not_keep_the_program_from_ending(tmp_path: Path, hanging: HangingRing) -> None:
    """The threads of the event loop are joined when it ends; ours must not be among them."""

    async def ask() -> None:
        with pytest.raises(GatewayError):
            await LoginStore(tmp_path, keyring=giving(hanging), timeout=0.05).load()

    asyncio.run(ask())
    assert not hanging.released.is_set()
    left = [thread for thread in threading.enumerate() if thread.name == "tieline-credentials"]
    assert left
    assert all(thread.daemon for thread in left)


async def test_a_broken_entry_in_the_keyring_says_what_to_do(tmp_path: Path) -> None:
    ring = FakeRing()
    ring.set_password("tieline", "cursor", "{secret")
    error = await load_error(LoginStore(tmp_path, keyring=giving(ring)))
    assert "keyring" in error.message
    assert "secret" not in error.message


async def test_a_login_in_the_keyring_is_known_without_reading_the_keyring(tmp_path: Path) -> None:
    def fresh(ring: Keyring | None = None) -> LoginStore:
        return LoginStore(tmp_path, keyring=no_keyring if ring is None else giving(ring))

    ring = FakeRing()
    assert not fresh().is_stored
    await fresh(ring).save(LOGIN)
    assert fresh(LockedRing()).is_stored
    await fresh(ring).clear()
    assert not fresh().is_stored
    await fresh().save(LOGIN)
    assert fresh().is_stored
    await fresh().clear()
    assert not fresh().is_stored


PACKAGE = """
class Ring:
    priority = {priority}
def get_keyring():
    {trouble}
    return Ring()
"""


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        (PACKAGE.format(priority=5, trouble="pass"), True),
        (PACKAGE.format(priority=0.5, trouble="pass"), False),
        (PACKAGE.format(priority=0, trouble="pass"), False),
        (PACKAGE.format(priority=5, trouble="raise RuntimeError('no bus')"), False),
        ("raise OSError('a library is missing')", False),
    ],
    ids=["good", "plain text files", "none", "no bus", "broken"],
)
def test_only_a_keyring_worth_the_name_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, is_found: bool
) -> None:
    (tmp_path / "keyring.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    try:
        assert (find_keyring() is not None) is is_found
    finally:
        sys.modules.pop("keyring", None)


def test_without_the_package_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert find_keyring() is None


# ── the login of Cursor's own client ──

HOME = Path("/home/u")


@pytest.mark.parametrize(
    ("platform", "config_home", "app_data", "expected"),
    [
        ("linux", None, None, [".config/cursor", ".cursor/sdk"]),
        ("linux", HOME / "xdg", None, ["xdg/cursor", ".config/cursor", ".cursor/sdk"]),
        ("linux", HOME / ".config", None, [".config/cursor", ".cursor/sdk"]),
        ("darwin", None, None, [".config/cursor", ".cursor", ".cursor/sdk"]),
        ("win32", None, HOME / "roam", ["roam/Cursor", ".cursor/sdk"]),
        ("win32", None, None, ["AppData/Roaming/Cursor", ".cursor/sdk"]),
    ],
)
def test_the_files_are_where_the_official_programs_keep_them(
    platform: str, config_home: Path | None, app_data: Path | None, expected: list[str]
) -> None:
    assert places(platform, HOME, config_home, app_data) == [HOME / folder / "auth.json" for folder in expected]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (
            {"accessToken": "A", "refreshToken": "R", "apiKey": "K", "bedrockCredentials": {}},
            LoginTokens(access="A", refresh="R", origin="import", obtained=NOW),
        ),
        ({"accessToken": "user_1::A"}, LoginTokens(access="A", origin="import", obtained=NOW)),
        ({"accessToken": "A", "apiKey": "K"}, LoginTokens(api_key="K", origin="import", obtained=NOW)),
        (
            {"version": 1, "backendUrl": "https://api2.cursor.sh", "apiKey": "K", "email": "a@b.example"},
            LoginTokens(api_key="K", origin="import", obtained=NOW),
        ),
    ],
    ids=["login", "old spelling", "key", "SDK"],
)
async def test_a_login_is_read_as_the_official_programs_write_it(
    tmp_path: Path, contents: object, expected: LoginTokens
) -> None:
    path = tmp_path / "auth.json"
    path.write_bytes(msgspec.json.encode(contents))
    assert await import_login([tmp_path / "absent" / "auth.json", path], now=NOW) == (expected, str(path))


async def test_a_file_left_after_logging_out_is_passed_over(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text('{"accessToken": null, "refreshToken": 5}')
    second.write_text('{"apiKey": "K"}')
    assert (await import_login([first, second], now=NOW)).place == str(second)


async def test_without_a_login_to_take_over_the_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(GatewayError) as caught:
        await import_login([tmp_path / "auth.json"], now=NOW)
    assert str(tmp_path / "auth.json") in caught.value.message
    assert "tieline login cursor" in caught.value.message


@pytest.mark.parametrize("contents", [b"", b"[]", b"\xff", b'{"accessToken": "secret\\u0000"}'])
async def test_a_file_of_theirs_that_is_broken_is_named_without_its_contents(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "auth.json"
    path.write_bytes(contents)
    with pytest.raises(GatewayError) as caught:
        await import_login([path], now=NOW)
    assert str(path) in caught.value.message
    assert "secret" not in caught.value.message


async def test_on_a_mac_the_keychain_is_asked_first_and_only_there(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    path.write_text('{"apiKey": "K"}')
    ring = FakeRing()
    ring.set_password("cursor-access-token", "cursor-user", "A")
    ring.set_password("cursor-refresh-token", "cursor-user", "R")
    found = await import_login([path], now=NOW, platform="darwin", keyring=giving(ring))
    assert found == (LoginTokens(access="A", refresh="R", origin="import", obtained=NOW), "the macOS keychain")
    assert (await import_login([path], now=NOW, platform="linux", keyring=giving(ring))).place == str(path)
    assert (await import_login([path], now=NOW, platform="darwin", keyring=giving(LockedRing()))).place == str(path)
