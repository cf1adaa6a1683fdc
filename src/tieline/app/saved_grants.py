"""Saved grants: permissions that the user granted with the answer "always". There is one file per workspace."""

import errno
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tieline.app.config import ConfigError
from tieline.model.rules import Rule
from tieline.net.file_lock import try_lock
from tieline.net.private_files import open_private, read_private, write_private
from tieline.tools.policy import Grants, dump_rules, load_rules

log = logging.getLogger("tieline")

RULES_LIMIT = 4 << 20
LOCK_WAIT = 5.0
"""Seconds to wait while another gateway is writing the grants of the same workspace."""

_FileIdentity = tuple[int, ...]


class SavedGrants(Grants):
    """The permissions saved for one workspace, in a file that several gateways may share.

    The file is changed only under a lock and is read again whenever it has been replaced. So a change made by one
    gateway takes effect in the other gateways at their next tool call. A file that cannot be read or trusted grants
    nothing.
    """

    def __init__(self, folder: Path, workspace: str) -> None:
        super().__init__()
        name = re.sub(r"[^\w.-]+", "_", Path(workspace).name)[:40]
        mark = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
        self.path = folder / "allowed" / f"{name or 'root'}-{mark}.json"
        self._lock = threading.Lock()
        self._seen: _FileIdentity | None = None
        self._unsaved: tuple[Rule, ...] = ()
        """Grants that are valid only in this process, because writing the file failed."""
        self._revoked: frozenset[str] = frozenset()
        """Ids of the grants that are revoked only in this process, because writing the file failed."""

    def load(self) -> tuple[Rule, ...]:
        """Read the file for the first time. Raise ConfigError if it cannot be trusted or parsed."""
        try:
            self._rules, self._seen = self._read()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"the saved permissions cannot be read: {reason}", path=self.path) from error
        return self._rules

    def rules(self) -> tuple[Rule, ...]:
        """Return the current grants, including those added by other gateways."""
        with self._lock:
            if self._identity() != self._seen:
                self._refresh()
            unsaved = (rule for rule in self._unsaved if rule not in self._rules)
            return tuple(rule for rule in (*self._rules, *unsaved) if rule.id not in self._revoked)

    def add(self, rule: Rule) -> None:
        """Add a grant for every gateway with this workspace.

        If the grant cannot be saved, add it in this process only and raise OSError.
        """
        with self._lock:
            self._revoked -= {rule.id}
            try:
                self._change(lambda rules: rules if rule in rules else (*rules, rule))
            except OSError:
                self._unsaved = (*self._unsaved, rule)
                raise

    def remove(self, rule_id: str) -> bool:
        """Revoke a grant in every gateway with this workspace. Return False if there is no such grant.

        If the change cannot be saved, revoke the grant in this process only and raise OSError.
        """
        if all(rule.id != rule_id for rule in self.rules()):
            return False
        with self._lock:
            self._unsaved = tuple(rule for rule in self._unsaved if rule.id != rule_id)
            try:
                self._change(lambda rules: tuple(rule for rule in rules if rule.id != rule_id))
            except OSError:
                self._revoked |= {rule_id}
                raise
        return True

    def _change(self, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]) -> None:
        """Replace the rules in the file with `change(rules)`, while holding the lock on the file."""
        with self._locked():
            try:
                before, _ = self._read()
            except ValueError as error:
                raise OSError(errno.EINVAL, str(error)) from error
            after = change(before)
            if after != before:
                write_private(self.path, dump_rules(after).encode())
            self._rules, self._seen = after, self._identity()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock that all gateways with this workspace share. Raise OSError after waiting LOCK_WAIT seconds."""
        descriptor = open_private(self.path.with_suffix(".lock"), os.O_RDWR)
        try:
            until = time.monotonic() + LOCK_WAIT
            while not try_lock(descriptor):
                if time.monotonic() > until:
                    raise OSError(errno.EAGAIN, "another gateway is writing to it")
                time.sleep(0.01)
            yield
        finally:
            os.close(descriptor)

    def _refresh(self) -> None:
        try:
            self._rules, self._seen = self._read()
        except (OSError, ValueError) as error:
            self._rules, self._seen = (), self._identity()
            log.warning("could not read the saved permissions, so you will be asked again: %s: %s", self.path, error)

    def _read(self) -> tuple[tuple[Rule, ...], _FileIdentity | None]:
        """Return the rules in the file, and the identity of the file.

        The identity is taken before reading, so that a later replacement of the file is always noticed.
        """
        identity = self._identity()
        try:
            return load_rules(read_private(self.path, RULES_LIMIT).decode("utf-8")), identity
        except FileNotFoundError:
            return (), identity

    def _identity(self) -> _FileIdentity | None:
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
