"""What the doctor finds out about the Cursor login and the keyring, without saying whose it is."""

import time
from pathlib import Path

from tests.app.doctor.support import examined
from tests.backends.cursor_logins import jwt
from tieline.app.config import Config
from tieline.app.doctor.accounts import account_checks
from tieline.app.doctor.findings import Finding, run_checks
from tieline.backends.credentials import Keyring, no_keyring
from tieline.backends.cursor.login_store import LoginStore
from tieline.backends.cursor.tokens import LoginTokens

EMAIL = "jane.doe@example.com"


def token(expires: float) -> str:
    return jwt(expires=expires, email=EMAIL)


async def logged_in(home: Path, tokens: LoginTokens) -> Path:
    store = LoginStore(home / ".config" / "tieline", keyring=no_keyring)
    await store.save(tokens)
    return store.path


async def test_a_login_is_valid_until_it_expires(tmp_path: Path) -> None:
    text = '[server]\nport = 0\n[cursor]\nmodels = ["m"]\n'
    await logged_in(tmp_path, LoginTokens(access=token(time.time() + 7200), obtained=1.0))
    found = await examined(tmp_path, text)
    assert found["Cursor"].status == "ok"
    assert found["Cursor"].text.startswith("logged in; token valid until ")
    assert found["Cursor models"].text == "1 model"
    assert "doctor cursor --live" in found["Cursor tools"].fix
    await logged_in(tmp_path, LoginTokens(access=token(time.time() - 60), obtained=2.0))
    found = await examined(tmp_path, text)
    assert (found["Cursor"].status, found["Cursor"].fix) == ("problem", "Run `tieline login cursor`.")
    assert EMAIL not in str(found)


async def test_a_login_that_others_can_read_is_a_problem_and_is_not_repaired(tmp_path: Path) -> None:
    path = await logged_in(tmp_path, LoginTokens(access=token(time.time() + 7200), obtained=1.0))
    path.chmod(0o644)
    found = await examined(tmp_path)
    assert (found["Cursor"].status, found["Cursor"].fix) == ("problem", f"Run `chmod 600 {path}`.")
    assert path.stat().st_mode & 0o777 == 0o644


async def test_a_login_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    path = await logged_in(tmp_path, LoginTokens(access="x", obtained=1.0))
    path.write_text("{nonsense")
    found = await examined(tmp_path)
    assert found["Cursor"].status == "problem"
    assert "not a readable login" in found["Cursor"].text


async def test_without_a_login_the_account_is_a_problem_only_if_it_is_enabled(tmp_path: Path) -> None:
    assert (await examined(tmp_path))["Cursor"].status == "skipped"
    assert (await examined(tmp_path, "[server]\nport = 0\n[cursor]\nenabled = true\n"))["Cursor"].status == "problem"


class LockedKeyring:
    """A keyring that the user has not unlocked."""

    def get_password(self, service: str, username: str) -> str | None:
        raise PermissionError("locked: secret-in-the-message")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise PermissionError

    def delete_password(self, service: str, username: str) -> None:
        raise PermissionError


class OpenKeyring(LockedKeyring):
    """A keyring that works, and has no entry."""

    def get_password(self, service: str, username: str) -> str | None:
        return None


async def keyring_finding(home: Path, keyring: Keyring | None) -> Finding:
    checks = account_checks(Config(), {"HOME": str(home)}, None, lambda: keyring)
    return next(iter([finding async for finding in run_checks(checks[:1])]))


async def test_a_keyring_is_tried(tmp_path: Path) -> None:
    locked = await keyring_finding(tmp_path, LockedKeyring())
    assert locked.status == "warning"
    assert "secret-in-the-message" not in locked.text
    assert (await keyring_finding(tmp_path, OpenKeyring())).status == "ok"
    assert (await keyring_finding(tmp_path, None)).status == "skipped"
