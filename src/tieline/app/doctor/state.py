"""Checks the user's files: folders and their permissions, databases, the audit log, and free disk space."""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from tieline.app import audit
from tieline.app.database import sqlite
from tieline.app.doctor.findings import Check, Finding, blocking_check, known, ok, problem, warning
from tieline.app.folders import state_folder, user_folder
from tieline.net.private_files import NO_FOLLOW, has_owners

AREA = "Files"
CHECK_LIMIT = 5.0
"""Seconds after which the check of a database stops."""
MIN_SPACE = 200 << 20
"""Free disk space, in bytes, below which there is a warning."""

_APPEND = os.O_WRONLY | os.O_APPEND | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)
_NEVER_WRITTEN = "not there yet; it is created when it is needed"


def state_checks(env: Mapping[str, str]) -> list[Check]:
    """Return the checks for the user's folders and files, which are located with the variables in `env`."""
    own, state = user_folder(env), state_folder(env)
    checks = [blocking_check(AREA, "settings", lambda: _folder(own))]
    if state is None:
        text = "neither XDG_STATE_HOME nor HOME is set: sessions, responses and the audit log are not kept"
        return [*checks, known(AREA, "state", warning(text, "Set HOME."))]
    return [
        *checks,
        blocking_check(AREA, "state", lambda: _folder(state)),
        blocking_check(AREA, "disk space", lambda: _space(state)),
        blocking_check(AREA, "sessions", lambda: _database(state / sqlite.FILE_NAME)),
        blocking_check(AREA, "agent sessions", lambda: _database(state / "agents" / sqlite.FILE_NAME)),
        blocking_check(AREA, "audit log", lambda: _audit_log(state / audit.FILE_NAME)),
    ]


def _folder(path: Path) -> Finding:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _creatable(path)
    except OSError as error:
        return problem(f"{path}: {error.strerror}", f"Check the permissions of {path.parent}.")
    if not stat.S_ISDIR(found.st_mode):
        return problem(f"{path} is not a folder", f"Move {path} away.")
    return _foreign(path, found) or _writable(path) or ok(str(path))


def _creatable(path: Path) -> Finding:
    parent = next(folder for folder in path.parents if folder.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        return problem(f"{path} cannot be created: {parent} is read-only for you", f"Make {parent} writable.")
    return ok(f"{path}: {_NEVER_WRITTEN}")


def _writable(path: Path) -> Finding | None:
    if os.access(path, os.W_OK | os.X_OK):
        return None
    return problem(f"{path} is read-only for you", f"Run `chmod u+rwx {path}`.")


def _foreign(path: Path, found: os.stat_result, *, is_private: bool = False) -> Finding | None:
    """Return a problem if other users own a file or can change it, or can read it although `is_private` is true."""
    if not has_owners():
        return None
    if found.st_uid != os.getuid():
        return problem(f"{path} belongs to another user", f"Run `sudo chown -R {os.getuid()} {path}`.")
    if found.st_mode & 0o022:
        return problem(f"other users can write to {path}", f"Check its content, then run `chmod go-w {path}`.")
    if is_private and found.st_mode & 0o077:
        return problem(f"other users can read {path}", f"Run `chmod 600 {path}`.")
    return None


def _space(path: Path) -> Finding:
    folder = next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free for {path}"
    return ok(text) if free >= MIN_SPACE else warning(text, "Free some space: sessions may not be saved.")


def _database(path: Path) -> Finding:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _replaced(path) or ok(f"{path}: {_NEVER_WRITTEN}")
    wrong = _foreign(path, found, is_private=True) or _damage(path) or _replaced(path)
    return wrong or ok(f"{path}, {_size(found.st_size)}")


def _damage(path: Path) -> Finding | None:
    damage = sqlite.damage(path, limit=CHECK_LIMIT)
    if damage is None:
        return None
    fix = "The gateway renames a damaged file to `.broken` and starts an empty one. To keep a copy, make it now."
    return problem(f"{path} cannot be used: {damage}", fix)


def _replaced(path: Path) -> Finding | None:
    broken = path.with_suffix(".broken")
    if not broken.exists():
        return None
    return warning(f"an earlier file was damaged and is now {broken}", f"Remove {broken} if you do not need it.")


def _audit_log(path: Path) -> Finding:
    try:
        descriptor = os.open(path, _APPEND)
    except FileNotFoundError:
        return ok(f"{path}: {_NEVER_WRITTEN}")
    except OSError as error:
        text = f"{path} cannot be written ({error.strerror}): decisions about tools are not recorded"
        return problem(text, f"Make {path} a regular file that you can write, or move it away.")
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return problem(f"{path} is not a regular file", f"Move {path} away.")
    return _foreign(path, found, is_private=True) or ok(f"{path}, {_size(found.st_size)}")


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / 1024:.1f} KiB"
