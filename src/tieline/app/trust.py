"""Finds the configuration file, and checks whether the user trusts it.

A `tieline.toml` in the working directory may come from someone else's repository. It can send keys to other servers and
start programs, so it is used only if the user has trusted exactly this content at this path. A file named with
`--config`, and the user's own file, are always trusted.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tieline.app.config import FILE_NAME, ConfigError
from tieline.app.config_file import LIMIT, ConfigFile, read_config_file
from tieline.net.private_files import NotAFileError, has_owners, read_file, read_private, write_private

FOLDER_NAME = "trusted"
RECORD_LIMIT = 64 << 10

Standing = Literal["trusted", "changed", "unknown"]


class Trusted(NamedTuple):
    """A trusted file: its path and the SHA-256 of its content."""

    path: Path
    sha256: str


class TrustStore:
    """The files that the user trusts. Each path has a record of its own, so that concurrent writers do not conflict."""

    def __init__(self, user_folder: Path) -> None:
        self._folder = user_folder / FOLDER_NAME

    @property
    def is_new(self) -> bool:
        """Whether this user has never been asked to trust a file."""
        return not self._folder.exists()

    def begin(self) -> None:
        """Create the folder for the records, so that `is_new` becomes false. Raise OSError if that fails."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def standing(self, source: ConfigFile) -> Standing:
        """Return whether a file is trusted, has changed since it was trusted, or is unknown.

        Records that cannot be read, or that other users may have written, are ignored.
        """
        record = self._read(self._file(source.path))
        if record is None or record.path != source.path:
            return "unknown"
        return "trusted" if record.sha256 == digest(source.data) else "changed"

    def trust(self, source: ConfigFile) -> None:
        """Record that the user trusts this content at this path. Raise OSError if that fails."""
        record = {"version": 1, "path": str(source.path), "sha256": digest(source.data)}
        write_private(self._file(source.path), json.dumps(record).encode())

    def remove(self, path: Path) -> bool:
        """Stop trusting a file. Return whether it was trusted before. Raise OSError if its record cannot be removed."""
        try:
            self._file(path).unlink()
        except FileNotFoundError:
            return False
        return True

    def all(self) -> list[Trusted]:
        """Return all trusted files, sorted by path."""
        return sorted(self._all())

    def _all(self) -> Iterator[Trusted]:
        for file in self._folder.glob("*.json"):
            record = self._read(file)
            if record is not None:
                yield record

    def _read(self, file: Path) -> Trusted | None:
        try:
            record = json.loads(read_private(file, RECORD_LIMIT))
            return Trusted(Path(record["path"]), str(record["sha256"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _file(self, path: Path) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.json"


class Untrusted(NamedTuple):
    """A configuration file in the working directory that the user has not trusted."""

    source: ConfigFile
    standing: Standing
    is_first: bool
    """Whether this user has never been asked to trust a file before."""


Agree = Callable[[Untrusted], bool]
"""A function that asks the user whether to trust a file. It raises ConfigError if there is no terminal."""


class ConfigFinder:
    """Finds the configuration file. `agree` decides whether to trust a file, and `warn` shows a warning."""

    def __init__(self, user_folder: Path, *, agree: Agree, warn: Callable[[str], None]) -> None:
        self._own = user_folder / FILE_NAME
        self._store = TrustStore(user_folder)
        self._agree = agree
        self._warn = warn

    def find(self, explicit: Path | None, here: Path) -> ConfigFile | None:
        """Return the `explicit` file. Without one, return the file in `here` if it is trusted, or else the user's own.

        Return None if there is no file. Raise ConfigError if the file cannot be read or must not be used.
        """
        if explicit is not None:
            return read_config_file(explicit)
        local = None if is_same_folder(here, self._own.parent) else self._local(place(here))
        return local or self._users()

    def _local(self, path: Path) -> ConfigFile | None:
        source = read_local(path, self._warn)
        if source is None:
            return None
        standing = self._store.standing(source)
        if standing != "trusted":
            untrusted = Untrusted(source, standing, self._store.is_new)
            self._begin()
            if not self._agree(untrusted):
                return None
            self._remember(source)
        return source

    def _begin(self) -> None:
        try:
            self._store.begin()
        except OSError as error:
            self._warn(f"trusted files cannot be recorded: {error}")

    def _remember(self, source: ConfigFile) -> None:
        try:
            self._store.trust(source)
        except OSError as error:
            self._warn(f"{source.path} is used now, but cannot be recorded as trusted: {error}")

    def _users(self) -> ConfigFile | None:
        try:
            data = read_file(self._own, LIMIT, check=_require_own)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", path=self._own) from error
        except ValueError as error:
            raise ConfigError(f"cannot be used: {error}", path=self._own) from error
        return ConfigFile(self._own, data)


def trusted_source(user_folder: Path, here: Path) -> ConfigFile | None:
    """Return the configuration file that would be used without asking: a trusted one in `here`, or the user's own.

    Return None if there is no such file, or if the user would be asked. Raise ConfigError if the file cannot be used.
    """
    local = None if is_same_folder(here, user_folder) else read_local(place(here), lambda _: None)
    if local is not None and TrustStore(user_folder).standing(local) != "trusted":
        return None
    return ConfigFinder(user_folder, agree=lambda _: False, warn=lambda _: None).find(None, here)


def place(given: Path) -> Path:
    """Return the path under which a configuration file is trusted: its resolved folder, and its name in that folder.

    `given` is the file or its folder. If the file is a link, the link is not followed, because the effect of a file
    depends on the folder in which it is used.
    """
    folder, name = (given, FILE_NAME) if given.is_dir() else (given.parent, given.name)
    return Path(os.path.realpath(folder)) / name


def read_local(path: Path, warn: Callable[[str], None]) -> ConfigFile | None:
    """Read a configuration file that may come from an attacker. Return None if there is no regular file at `path`.

    If there is something else at `path`, such as a pipe, call `warn`. Raise ConfigError if the file cannot be read.
    """
    try:
        return ConfigFile(path, read_file(path, LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotAFileError as error:
        warn(f"{path} is ignored: {error}")
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from error
    except ValueError as error:
        raise ConfigError(f"cannot be used: {error}", path=path) from error


def digest(data: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(data).hexdigest()


def is_same_folder(one: Path, other: Path) -> bool:
    """Return whether two paths, which need not exist, lead to the same folder."""
    return os.path.realpath(one) == os.path.realpath(other)


def _require_own(state: os.stat_result) -> None:
    """Raise ValueError if anyone except this user and root may have written the file."""
    if not has_owners():
        return
    if state.st_uid not in (os.getuid(), 0):
        raise ValueError("it belongs to another user; to use it anyway, pass it with --config")
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and not _is_private_group(state.st_gid)):
        raise ValueError("other users can write to it; check its content, then run chmod go-w on it")


def _is_private_group(gid: int) -> bool:
    """Return whether this user is the only member of a group. Many systems create such a group for each user."""
    import grp  # noqa: PLC0415 - rarely needed, and missing on Windows
    import pwd  # noqa: PLC0415 - as above

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
