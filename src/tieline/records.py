"""Files the gateway keeps for its user: what was allowed for good, and the audit of what was asked and decided.

Both are readable by their owner only. What is allowed is read once, at the start, and must be beyond doubt; the audit
is only ever written, and must never be in the way.
"""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tieline.config import ConfigError
from tieline.core.inbox import Entry
from tieline.private_files import read_private, write_private
from tieline.tools.policy import Rule, Subject, Verdict, dump_rules, load_rules

log = logging.getLogger("tieline")

AUDIT_LIMIT = 4 << 20
AUDIT_KEPT = 3
"""How many full files of the audit are kept beside the one being written."""
LONGEST_TEXT = 16 << 10
"""More of a text is left out of the audit."""
RULES_LIMIT = 4 << 20

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# ── What was allowed for good ────────────────────────────────────────────────────────────────────


class Remembered:
    """The rules that were answered with "always" in one workspace, in a file of its own."""

    def __init__(self, folder: Path, workspace: str) -> None:
        name = re.sub(r"[^\w.-]+", "_", Path(workspace).name)[:40]
        mark = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
        self.path = folder / "allowed" / f"{name or 'root'}-{mark}.json"

    def load(self) -> tuple[Rule, ...]:
        """The rules; raises ConfigError for a file that cannot be trusted or understood."""
        try:
            return load_rules(self._read())
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"what was allowed for good cannot be read: {reason}", path=self.path) from error

    def save(self, rules: Sequence[Rule]) -> None:
        """Keep these rules instead of those before; raises OSError."""
        write_private(self.path, dump_rules(rules).encode())

    def _read(self) -> str:
        return read_private(self.path, RULES_LIMIT).decode("utf-8")


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

    def entry(self, entry: Entry) -> None:
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
