"""The workspace: the folder that tools act in, with no access to anything outside.

Paths are resolved part by part: every directory is opened relative to its parent and never through a link, and `..`
goes back to a directory that is already open. A link is read, and its target is resolved in the same way. So
replacing a path between its check and its use gives no access to anything outside. (A hard link to a file outside
counts as a file in the workspace, because its creator already had access to that file.)

Everything here blocks: call it in a thread.
"""

import difflib
import errno
import os
import re
import secrets
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tieline.tools.errors import ToolFailed

MAX_LINKS = 40
MAX_DEPTH = 100
"""Maximum number of nested directories in a path. Each of them is held open while the path is resolved."""
MAX_FILE = 16 << 20
MAX_ENTRIES = 20_000
MAX_SIMILAR = 1000

_PIECE = 1 << 20


def _flags(*names: str) -> int:
    """Combine flags for `os.open`, without those that the system lacks.

    Leaving out O_NOFOLLOW is safe: without it, no `Workspace` can be created (see `CAN_CONFINE`).
    """
    return sum(getattr(os, name, 0) for name in names)


CAN_CONFINE = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.mkdir, os.unlink, os.readlink} <= os.supports_dir_fd
"""Whether this system can open files relative to an open directory and without following links. Windows cannot."""

_DIRECTORY = os.O_RDONLY | _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_STEP = _DIRECTORY | getattr(os, "O_PATH", 0)
"""Flags to open a directory in the middle of a path. Where the system has O_PATH, no read permission is needed."""
_READ = os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("O_NOFOLLOW", "O_CLOEXEC")
_REASONS = {
    errno.ENOTDIR: "a part of this path is a file, not a directory",
    errno.EISDIR: "it is a directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "it is read-only",
    errno.ENOSPC: "the disk is full",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "it became a link while it was being opened",
}


class ResolvedPath(NamedTuple):
    """A name in an open directory. `path` is the whole path relative to the root, with all links resolved."""

    directory: int
    name: str
    path: str


class OpenFile(NamedTuple):
    """A regular file, open for reading."""

    stream: BinaryIO
    path: str
    size: int


class DirectoryEntry(NamedTuple):
    """One entry of a directory. `target` is the target of a link."""

    name: str
    kind: str
    size: int
    target: str = ""


class WriteResult(NamedTuple):
    """The result of writing a file. `before` is its previous content, if that could be read."""

    path: str
    is_new: bool
    before: bytes | None = None


class Workspace:
    """The folder that tools may access. Paths are relative to its root; an absolute path must start with the root."""

    def __init__(self, root: str | Path) -> None:
        if not CAN_CONFINE:
            raise ToolFailed("this system cannot confine the gateway's own tools to a folder, so there are none")
        given = os.path.abspath(root)  # noqa: PTH100 - Path.absolute keeps `..`, which must not stay in a root
        self.root = os.path.realpath(given)
        if not Path(self.root).is_dir():
            raise ToolFailed(f"the workspace {given} is not a directory")
        self._spellings = [spelling.rstrip("/") for spelling in (self.root, given)]
        self._writing = threading.Lock()
        self.pin: str | None = None
        """The only path that can be accessed; None if there is no such restriction."""

    def pinned(self, place: str | None) -> "Workspace":
        """Return this workspace with access restricted to the resolved path `place` (None means no restriction).

        A person gives permission for a resolved path. The restriction prevents access to another path if a link is
        changed in the meantime.
        """
        if place is None:
            return self
        pinned = copy(self)
        pinned.pin = place
        return pinned

    def locate(self, path: str) -> str:
        """Return a path relative to the root, with links resolved. The path need not exist.

        Raise ToolFailed if it is outside the workspace.
        """
        walk = _PathWalk(self, path)
        with walk, walk.explaining_errors():
            try:
                return walk.run().path
            except FileNotFoundError:
                if ".." in walk.ahead:
                    raise
                return "/".join([*walk.names, *walk.ahead])

    @contextmanager
    def resolve(self, path: str, *, make: bool = False) -> Iterator[ResolvedPath]:
        """Resolve a path, and hold its parent directory open. If `make` is true, create missing directories."""
        walk = _PathWalk(self, path, make=make)
        with walk, walk.explaining_errors():
            spot = walk.run()
            if self.pin not in (None, spot.path):
                raise self.moved(path)
            yield spot

    @contextmanager
    def open(self, path: str) -> Iterator[OpenFile]:
        """Open a regular file for reading."""
        with self.resolve(path) as spot, self._reading(spot, path) as opened:
            yield opened

    @contextmanager
    def directory(self, path: str) -> Iterator[ResolvedPath]:
        """Open a directory. The `directory` of the result is its file descriptor."""
        with self.resolve(path) as spot:
            found = self.lstat(spot)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise ToolFailed(f"`{path}` is a file, not a directory")
            opened = os.open(spot.name, _DIRECTORY, dir_fd=spot.directory)
            try:
                yield ResolvedPath(opened, ".", spot.path)
            finally:
                os.close(opened)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return at most MAX_ENTRIES entries of a directory, in no particular order."""
        found: list[DirectoryEntry] = []
        with self.directory(path) as spot, os.scandir(spot.directory) as listing:
            for item in listing:
                with suppress(OSError):  # the entry was removed meanwhile
                    found.append(_entry(item, spot.directory))
                if len(found) >= MAX_ENTRIES:
                    break
        return found

    def has_file(self, path: str) -> bool:
        """Return whether the path is a regular file in the workspace."""
        try:
            with self.open(path):
                return True
        except ToolFailed:
            return False

    def lstat(self, spot: ResolvedPath) -> os.stat_result | None:
        """Return the status of a path without following links; None if it does not exist."""
        try:
            return os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> WriteResult:
        """Write a complete file atomically."""
        with self._writing, self.resolve(path, make=True) as spot:
            found, before = self.lstat(spot), None
            if found is not None:
                check_regular(found, path)
                with suppress(OSError, ToolFailed), self._reading(spot, path) as opened:
                    before = read_whole(opened)
            self._replace(spot, data, found)
            return WriteResult(spot.path, found is None, before)

    def edit(self, path: str, change: Callable[[bytes], bytes]) -> str:
        """Atomically replace the content of a file with the result of `change`. Return the file's resolved path."""
        with self._writing, self.resolve(path) as spot:
            before = self.lstat(spot)
            with self._reading(spot, path) as opened:
                data = read_whole(opened)
            self._replace(spot, change(data), before)
            return spot.path

    def parts(self, path: str) -> list[str]:
        """Split a path into its parts below the root. Raise ToolFailed for an absolute path outside the root."""
        try:
            if b"\0" in os.fsencode(path):
                raise ToolFailed("a path cannot contain a null character")
        except UnicodeEncodeError:
            raise ToolFailed("the path contains characters that a file name cannot have") from None
        if path.startswith("/"):
            path = re.sub("//+", "/", path)
            inside = (path[len(root) :] for root in self._spellings if path == root or path.startswith(f"{root}/"))
            if (found := next(inside, None)) is None:
                raise self.outside(path)
            path = found
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if len(parts) > MAX_DEPTH:
            raise ToolFailed(f"a path has at most {MAX_DEPTH} parts, not {len(parts)}")
        return parts

    def outside(self, path: str) -> ToolFailed:
        """Return the error for a path outside the workspace."""
        return ToolFailed(
            f"`{path}` is outside the workspace {self.root}, and only files inside it can be accessed. "
            "Use a path relative to the workspace."
        )

    def moved(self, path: str) -> ToolFailed:
        """Return the error for a path whose target has changed since it was pinned."""
        return ToolFailed(f"`{path}` has changed its target in the meantime. Nothing was done; look again.")

    @contextmanager
    def _reading(self, spot: ResolvedPath, path: str) -> Iterator[OpenFile]:
        check_regular(self.lstat(spot), path)
        with os.fdopen(os.open(spot.name, _READ, dir_fd=spot.directory), "rb") as stream:
            found = os.fstat(stream.fileno())
            check_regular(found, path)
            yield OpenFile(stream, spot.path, found.st_size)

    def _check_unchanged(self, spot: ResolvedPath, before: os.stat_result | None) -> None:
        if _identity(self.lstat(spot)) != _identity(before):
            raise ToolFailed(
                f"`{spot.path}` was changed by another program in the meantime: read it again, then repeat the change"
            )

    def _replace(self, spot: ResolvedPath, data: bytes, before: os.stat_result | None) -> None:
        if len(data) > MAX_FILE:
            raise ToolFailed(f"the file would have {len(data)} bytes; at most {MAX_FILE} can be written")
        unfinished = f".tieline-{secrets.token_hex(8)}"
        # A copy of a private file must never be readable by others, not even for a moment.
        opened = os.open(unfinished, _CREATE, 0o666 if before is None else 0o600, dir_fd=spot.directory)
        try:
            with os.fdopen(opened, "wb") as stream:
                stream.write(data)
                stream.flush()
                if before is not None:
                    _copy_permissions(opened, before)
                os.fsync(opened)
            self._check_unchanged(spot, before)
            os.replace(unfinished, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=spot.directory)
            raise


def read_whole(opened: OpenFile) -> bytes:
    """Return the content of a file. Raise ToolFailed if it is larger than MAX_FILE."""
    if opened.size > MAX_FILE:
        raise ToolFailed(f"`{opened.path}` has {opened.size} bytes; at most {MAX_FILE} can be read at once")
    pieces: list[bytes] = []
    size = 0
    while piece := opened.stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_FILE:
            raise ToolFailed(f"`{opened.path}` grew to more than {MAX_FILE} bytes while it was read")
    return b"".join(pieces)


def check_regular(found: os.stat_result | None, path: str) -> None:
    """Raise ToolFailed or OSError unless `found`, the status of `path`, is that of a regular file.

    Reading a pipe or a device could block forever.
    """
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed(f"`{path}` is a directory, not a file")
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"`{path}` is not a regular file (it is a pipe, a socket or a device)")


class _PathWalk:
    """Resolves one path. `names` holds the resolved parts, relative to the root; `ahead` holds the remaining parts."""

    def __init__(self, workspace: Workspace, path: str, *, make: bool = False) -> None:
        self.workspace = workspace
        self.path = path
        self.make = make
        self.ahead = deque(workspace.parts(path))
        self.names: list[str] = []
        self.name = ""
        """The part that is being resolved, or was resolved last."""
        self.opened: list[int] = []
        self.links = 0

    def __enter__(self) -> None:
        try:
            self.opened.append(os.open(self.workspace.root, _STEP))
        except OSError as error:
            raise ToolFailed(
                f"the workspace {self.workspace.root} itself cannot be opened: {error.strerror}"
            ) from error

    def __exit__(self, *_: object) -> None:
        while self.opened:
            os.close(self.opened.pop())

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Turn system errors into ToolFailed. For a missing name, suggest similar names."""
        try:
            yield
        except FileNotFoundError as error:
            place = f"`{'/'.join(self.names)}`" if self.names else "the workspace"
            near = difflib.get_close_matches(self.name, self.listing())
            hint = f"; did you mean {', '.join(f'`{name}`' for name in near)}?" if near else ""
            raise ToolFailed(f"`{self.path}`: there is no `{self.name}` in {place}{hint}") from error
        except OSError as error:
            reason = _REASONS.get(error.errno or 0) or error.strerror or "the system refused it"
            raise ToolFailed(f"`{self.path}`: {reason}") from error

    def run(self) -> ResolvedPath:
        """Resolve all parts. If FileNotFoundError is raised, `ahead` begins with the missing part."""
        while self.ahead:
            name = self.name = self.ahead.popleft()
            if name == "..":
                self.back()
            elif (target := self.link(name)) is not None:
                self.follow(target)
            elif self.ahead:
                self.step(name)
            else:
                return ResolvedPath(self.opened[-1], name, "/".join([*self.names, name]))
        return ResolvedPath(self.opened[-1], ".", "/".join(self.names) or ".")

    def listing(self) -> list[str]:
        with suppress(OSError), ExitStack() as kept:
            opened = os.open(".", _DIRECTORY, dir_fd=self.opened[-1])
            kept.callback(os.close, opened)
            entries = kept.enter_context(os.scandir(opened))
            return [entry.name for entry in islice(entries, MAX_SIMILAR)]
        return []

    def back(self) -> None:
        if not self.names:
            raise self.workspace.outside(self.path)
        self.names.pop()
        os.close(self.opened.pop())

    def link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self.opened[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def follow(self, target: str) -> None:
        self.links += 1
        if self.links > MAX_LINKS:
            raise ToolFailed(f"`{self.path}` contains too many links, perhaps a cycle")
        try:
            parts = self.workspace.parts(target)
        except ToolFailed:
            raise self.workspace.outside(self.path) from None
        if target.startswith("/"):
            while self.names:
                self.back()
        self.ahead.extendleft(reversed(parts))

    def step(self, name: str) -> None:
        if len(self.names) > MAX_DEPTH:
            raise ToolFailed(f"`{self.path}` contains more than {MAX_DEPTH} directories")
        try:
            opened = os.open(name, _STEP, dir_fd=self.opened[-1])
        except FileNotFoundError:
            if not self.make or ".." in self.ahead:
                self.ahead.appendleft(name)
                raise
            pin = self.workspace.pin
            if pin is not None and not pin.startswith("/".join([*self.names, name, ""])):
                raise self.workspace.moved(self.path) from None
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.opened[-1])
            opened = os.open(name, _STEP, dir_fd=self.opened[-1])
        self.opened.append(opened)
        self.names.append(name)


def _entry(item: "os.DirEntry[str]", directory: int) -> DirectoryEntry:
    if item.is_symlink():
        return DirectoryEntry(item.name, "link", 0, os.readlink(item.name, dir_fd=directory))
    if item.is_dir(follow_symlinks=False):
        return DirectoryEntry(item.name, "directory", 0)
    kind = "file" if item.is_file(follow_symlinks=False) else "other"
    return DirectoryEntry(item.name, kind, item.stat(follow_symlinks=False).st_size)


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _copy_permissions(opened: int, before: os.stat_result) -> None:
    own = os.fstat(opened)
    if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may change the owner
            os.fchown(opened, before.st_uid, before.st_gid)
    os.fchmod(opened, before.st_mode & 0o777)
