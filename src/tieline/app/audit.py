"""The audit log: one JSON line for each inbox item, each answer, and each decision made by a rule.

Only the owner of the file can read it. If writing fails, the failure is logged, but the action is not prevented. With a
shared database, each record is also copied there in the background. The file is still written, because only a local
file can be written before the action begins.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tieline.app.folders import state_folder
from tieline.core.inbox.inbox import AuditEntry
from tieline.net.private_files import open_private
from tieline.tools.policy import Subject, Verdict

log = logging.getLogger("tieline")

FILE_NAME = "audit.jsonl"
AUDIT_LIMIT = 4 << 20
"""Size, in bytes, at which the file is rotated."""
AUDIT_KEPT = 3
"""Number of rotated files that are kept."""
LONGEST_TEXT = 16 << 10
"""Maximum length, in characters, of each text in a record. Longer texts are truncated."""

_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)


class AuditLog:
    """Appends records to the file at `path`. Each record is written before the action that it describes.

    `copy`, if given, is called with the time and the JSON text of each record. If `path` is None, there is no file.
    Without both, nothing is recorded, and a warning is logged.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Callable[[], float],
        limit: int = AUDIT_LIMIT,
        kept: int = AUDIT_KEPT,
        copy: Callable[[float, str], None] | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._limit = limit
        self._kept = kept
        self._copy = copy
        self._is_failing = False

    def write_entry(self, entry: AuditEntry) -> None:
        """Record that an inbox item has changed."""
        self._write(entry)

    def write_ruling(self, subject: Subject, verdict: Verdict) -> None:
        """Record a decision that a rule made without asking the user."""
        what = {"at": self._clock(), "what": "ruled", "decision": verdict.decision, "reason": verdict.reason}
        self._write({**what, "call": subject})

    def _write(self, record: object) -> None:
        """Append a record. If several writes fail in a row, log only the first failure."""
        try:
            line = msgspec.json.encode(_encodable(msgspec.to_builtins(record)))
            if self._copy is not None:
                self._copy(self._clock(), line.decode())
            if self._path is not None or self._copy is None:
                self._append(line + b"\n")
        except (OSError, ValueError) as error:
            if not self._is_failing:
                log.warning("could not write the audit log (%s); decisions are not being recorded", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _append(self, line: bytes) -> None:
        path = self._path
        if path is None:
            raise FileNotFoundError("neither HOME nor XDG_STATE_HOME is set")
        if path.exists() and path.stat().st_size + len(line) > self._limit:
            self._rotate(path)
        with os.fdopen(open_private(path, _APPEND), "ab", buffering=0) as file:
            file.write(line)

    def _rotate(self, path: Path) -> None:
        for number in range(self._kept, 0, -1):
            older = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number}"))


def open_audit_log(env: Mapping[str, str], copy: Callable[[float, str], None] | None = None) -> AuditLog:
    """Return the audit log in the user's state folder. If there is no such folder, there is only the copy, if any."""
    folder = state_folder(env)
    return AuditLog(None if folder is None else folder / FILE_NAME, clock=time.time, copy=copy)


def _encodable(value: Any) -> Any:
    """Return `value` with long texts truncated and with surrogates, which UTF-8 cannot encode, replaced."""
    if isinstance(value, str):
        text = value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _encodable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(one) for one in value]
    return value
