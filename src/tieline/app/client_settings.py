"""Changes the settings files of clients, and restores them. The old content is kept in the user's state folder."""

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tieline.app.config import ConfigError
from tieline.app.folders import state_folder
from tieline.clients.client import Connection, SettingsFile, UnsafeChange
from tieline.clients.settings_text import changed_text
from tieline.model.content import Value
from tieline.net.private_files import read_file, read_private, write_private

MAX_FILE = 4 << 20
MAX_RECORD = 128 << 20
MAX_CHANGES = 10
"""Maximum number of changes to the settings of one client that can be undone."""
NEW_FILE_MODE = 0o600

_BOM = b"\xef\xbb\xbf"


class Change(NamedTuple):
    """A change to a settings file. `path` is the file itself, even if the client's path is a link to it."""

    path: Path
    old: bytes | None
    """The content before the change; None if there was no file."""
    new: bytes


class _Done(Value):
    """A change that was made."""

    path: str
    old: bytes | None
    mode: int
    digest: str
    """The SHA-256 of the new content."""
    folders: tuple[str, ...] = ()
    """The folders that were created for the file, the outermost first."""


class _ChangeRecord(Value):
    done: tuple[_Done, ...] = ()


class ChangedSince(Exception):
    """The file has changed since Tieline changed it. `change` describes the undo that was refused."""

    def __init__(self, change: Change) -> None:
        super().__init__(str(change.path))
        self.change = change


def find_file(file: SettingsFile, env: Mapping[str, str]) -> Path:
    """Return the path of a client's settings file, which need not exist. Raise ConfigError if HOME is not set."""
    for place in file.places:
        base = env.get(place.variable, "")
        if base and Path(base).is_absolute() and place.system in ("", sys.platform):
            path = Path(base) / place.path if place.path else Path(base)
            others = [path.with_name(name) for name in file.names]
            return next((other for other in others if other.exists() and not path.exists()), path)
    raise ConfigError("HOME is not set, so the settings of the client cannot be found")


def plan_change(file: SettingsFile, connection: Connection, env: Mapping[str, str]) -> Change:
    """Return the change that connects a client. Raise UnsafeChange if its file cannot be changed safely."""
    path = _resolved(find_file(file, env))
    old = _read(path)
    mark, content = (_BOM, (old or b"")[len(_BOM) :]) if (old or b"").startswith(_BOM) else (b"", old or b"")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnsafeChange("it is not UTF-8 text") from error
    return Change(path, old, mark + changed_text(file, text, connection).encode("utf-8"))


class SettingsChanges:
    """The changes that were made to the settings of one client."""

    def __init__(self, client: str, env: Mapping[str, str]) -> None:
        folder = state_folder(env)
        if folder is None:
            raise ConfigError("neither XDG_STATE_HOME nor HOME is set, so the old settings cannot be kept")
        self._path = folder / "configured" / f"{client}.json"

    def apply(self, change: Change) -> None:
        """Make a change and keep the old content.

        Raise ConfigError if the file has changed in the meantime or cannot be written, or if MAX_CHANGES is reached.
        """
        if _read(change.path) != change.old:
            raise ConfigError(f"{change.path} has just been changed by another program; try again")
        record = self._load()
        digest = _digest(change.new)
        last = record.done[-1] if record.done else None
        if last is not None and last.path == str(change.path) and last.digest == _digest(change.old):
            # The file is as the last change left it, so merge the two: a single undo restores the content before both.
            done = (*record.done[:-1], replace(last, digest=digest))
        elif len(record.done) >= MAX_CHANGES:
            raise ConfigError(f"too many changes are waiting to be undone; undo them first ({self._path})")
        else:
            done = (*record.done, _done(change, digest))
        self._save(_ChangeRecord(done=done))
        mode = NEW_FILE_MODE if change.old is None else _mode(change.path)
        _write(change.path, change.new, mode)

    def undo(self, *, force: bool = False) -> Path | None:
        """Undo the last change and return the path of the file; None if there is nothing to undo.

        Raise ChangedSince if the file has changed since then, unless `force` is true.
        """
        record = self._load()
        if not record.done:
            return None
        last = record.done[-1]
        path = Path(last.path)
        current = _read(path)
        if current != last.old and _digest(current) != last.digest and not force:
            raise ChangedSince(Change(path, current, last.old or b""))
        if last.old is not None:
            _write(path, last.old, last.mode)
        else:
            _remove(path, last.folders)
        self._save(_ChangeRecord(done=record.done[:-1]))
        return path

    def _load(self) -> _ChangeRecord:
        try:
            return msgspec.json.decode(read_private(self._path, MAX_RECORD), type=_ChangeRecord)
        except FileNotFoundError:
            return _ChangeRecord()
        except (OSError, ValueError) as error:
            raise ConfigError(f"the old settings in {self._path} cannot be read: {error}") from error

    def _save(self, record: _ChangeRecord) -> None:
        try:
            if record.done:
                write_private(self._path, msgspec.json.encode(record))
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"the old settings cannot be kept in {self._path}: {error.strerror}") from error


def _done(change: Change, digest: str) -> _Done:
    missing = [folder for folder in change.path.parents if not folder.exists()]
    mode = NEW_FILE_MODE if change.old is None else _mode(change.path)
    folders = tuple(str(folder) for folder in reversed(missing))
    return _Done(path=str(change.path), old=change.old, mode=mode, digest=digest, folders=folders)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path, MAX_FILE)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically, with a given mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _remove(path: Path, folders: tuple[str, ...]) -> None:
    """Remove a file, and the folders that were created for it if they are empty."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be removed: {error.strerror}") from error
    with contextlib.suppress(OSError):
        for folder in reversed(folders):
            Path(folder).rmdir()
