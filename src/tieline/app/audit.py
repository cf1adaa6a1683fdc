"""Files the gateway keeps for its user: what was allowed for good, and the audit of what was asked and decided.

Both are readable by their owner only. What is allowed must be beyond doubt, or it is not allowed; the audit is only
ever written, and must never be in the way.
"""

import errno
import fcntl
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tieline.app.config import ConfigError
from tieline.core.inbox.inbox import AuditEntry
from tieline.model.rules import Rule
from tieline.net.private_files import read_private, write_private
from tieline.tools.policy import Grants, Subject, Verdict, dump_rules, load_rules

log = logging.getLogger("tieline")

AUDIT_LIMIT = 4 << 20
AUDIT_KEPT = 3
"""How many full files of the audit are kept beside the one being written."""
LONGEST_TEXT = 16 << 10
"""More of a text is left out of the audit."""
RULES_LIMIT = 4 << 20
LOCK_WAIT = 5.0
"""Seconds to wait for another gateway that writes the rules of the same workspace."""

_Identity = tuple[int, ...]
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# ── What was allowed for good ────────────────────────────────────────────────────────────────────


class Remembered(Grants):
    """The rules that were answered with "always" in one workspace, in a file that several gateways may share.

    The file is read again whenever it was replaced, and changed under a lock from what it says then: what one gateway
    grants or revokes holds in the others from the next call on. A file that cannot be read or trusted grants nothing.
    """

    def __init__(self, folder: Path, workspace: str) -> None:
        super().__init__()
        name = re.sub(r"[^\w.-]+", "_", Path(workspace).name)[:40]
        mark = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
        self.path = folder / "allowed" / f"{name or 'root'}-{mark}.json"
        self._lock = threading.Lock()
        self._seen: _Identity | None = None
        self._unsaved: tuple[Rule, ...] = ()
        """Granted until the end of the program, since it could not be written."""
        self._revoked: frozenset[str] = frozenset()
        """Revoked until the end of the program, for the same reason."""

    def load(self) -> tuple[Rule, ...]:
        """Read the rules for the first time; raises ConfigError for a file that cannot be trusted or understood."""
        try:
            self._rules, self._seen = self._read()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"what was allowed for good cannot be read: {reason}", path=self.path) from error
        return self._rules

    def rules(self) -> tuple[Rule, ...]:
        """Return what is granted now, by this gateway or another."""
        with self._lock:
            if self._identity() != self._seen:
                self._refresh()
            unsaved = (rule for rule in self._unsaved if rule not in self._rules)
            return tuple(rule for rule in (*self._rules, *unsaved) if rule.id not in self._revoked)

    def add(self, rule: Rule) -> None:
        """Grant this too, in every gateway of this workspace. Raises OSError if only this one knows of it."""
        with self._lock:
            self._revoked -= {rule.id}
            try:
                self._change(lambda rules: rules if rule in rules else (*rules, rule))
            except OSError:
                self._unsaved = (*self._unsaved, rule)
                raise

    def remove(self, rule_id: str) -> bool:
        """Revoke a grant in every gateway of this workspace. Raises OSError if it would come back after a restart."""
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
        """Replace what the file says now by what `change` makes of it."""
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
        """Hold the lock that all gateways of this workspace use; raises OSError if another one keeps it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path.with_suffix(".lock"), _LOCK, 0o600)
        try:
            until = time.monotonic() + LOCK_WAIT
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise OSError(errno.EAGAIN, "another gateway is writing it") from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(descriptor)

    def _refresh(self) -> None:
        try:
            self._rules, self._seen = self._read()
        except (OSError, ValueError) as error:
            self._rules, self._seen = (), self._identity()
            log.warning("what was allowed for good cannot be read, so everything asks: %s: %s", self.path, error)

    def _read(self) -> "tuple[tuple[Rule, ...], _Identity | None]":
        """Read the file; its identity is taken first, so that a later replacement is always noticed."""
        identity = self._identity()
        try:
            return load_rules(read_private(self.path, RULES_LIMIT).decode("utf-8")), identity
        except FileNotFoundError:
            return (), identity

    def _identity(self) -> "_Identity | None":
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


# ── The audit ────────────────────────────────────────────────────────────────────────────────────


class Audit:
    """Writes one line for everything asked and decided, to `path` if there is one.

    An ask is rare and its line small, so it is written at once: it is there before anything happens.
    """

    def __init__(
        self, path: Path | None, *, clock: Callable[[], float], limit: int = AUDIT_LIMIT, kept: int = AUDIT_KEPT
    ) -> None:
        self._path = path
        self._clock = clock
        self._limit = limit
        self._kept = kept
        self._is_failing = False

    def entry(self, entry: AuditEntry) -> None:
        """Write down what happened to an ask."""
        self._write(entry)

    def ruled(self, subject: Subject, verdict: Verdict) -> None:
        """Write down what a rule decided without asking anybody."""
        what = {"at": self._clock(), "what": "ruled", "decision": verdict.decision, "reason": verdict.reason}
        self._write({**what, "call": subject})

    def _write(self, what: object) -> None:
        """A failure is told once, and again only after it had gone away."""
        try:
            self._append(msgspec.json.encode(_shortened(msgspec.to_builtins(what))) + b"\n")
        except (OSError, ValueError) as error:
            if not self._is_failing:
                log.warning("what is asked and decided is not written down: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _append(self, line: bytes) -> None:
        path = self._path
        if path is None:
            raise FileNotFoundError("there is no home to keep it in")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size + len(line) > self._limit:
            self._turn_over(path)
        with os.fdopen(os.open(path, _APPEND, 0o600), "ab", buffering=0) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(line)

    def _turn_over(self, path: Path) -> None:
        for number in range(self._kept, 0, -1):
            older = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number}"))


def _shortened(value: Any) -> Any:
    """The same with long texts cut, and without what cannot be written (halves of characters)."""
    if isinstance(value, str):
        text = value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(one) for one in value]
    return value
