"""A small search program that replaces ripgrep where it is not installed.

    files FLAGS NAMES                   list files below the current directory whose path matches the pattern NAMES
    lines FLAGS PATTERN NAMES [FILE]    list matching lines in such files, or in FILE

FLAGS are letters: `i` ignores case, `F` treats PATTERN as plain text, `a` includes files that .gitignore excludes and
folders that are skipped by default. The output format is that of ripgrep with the options that `search` uses: paths,
each followed by a zero byte; or for each line its path, a zero byte and `LINE:COLUMN:TEXT`. The search runs as a
separate process, because a regular expression can run forever, and a thread cannot be stopped.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tieline.tools.globs import Glob

OWN = frozenset({".git"})
SKIPPED = OWN | {".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".tox"}
MAX_FILE = 64 << 20
MAX_IGNORE = 1 << 20
MAX_PREVIEW = 512
SNIFFED = 8192

_IGNORE = ".gitignore"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC if hasattr(os, "O_NOFOLLOW") else os.O_RDONLY
_WILD = re.compile(r"[*?\[\\]")
_LINE_BOUND = re.compile(r"\(\?[^:P#]|\\[AZ]|\\z")
"""Matches syntax that may depend on where the text begins or ends. Such patterns are applied to single lines only."""


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code. If the pattern is invalid, print a message to stderr and return 2."""
    mode, flags, *rest = arguments
    skipped, ignoring = (OWN, False) if "a" in flags else (SKIPPED, True)
    glob = Glob.of(rest[0] if mode == "files" else rest[1])
    paths = (path for path in files(".", skipped, ignoring=ignoring) if glob.matches(path))
    if mode == "files":
        for path in paths:
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        return 0
    pattern, _, *only = rest
    try:
        wanted = _Expression(pattern, is_literal="F" in flags, ignores_case="i" in flags)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    for path in only or paths:
        for line in lines(path, wanted):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return 0


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def files(top: str, skipped: frozenset[str], *, ignoring: bool = True) -> Iterator[str]:
    """Yield every regular file below `top`, ordered by path, without following links.

    Folders with a name in `skipped` are left out. If `ignoring` is true, .gitignore files are applied.
    """
    return _below(top, "", skipped, (), ignoring=ignoring)


def _below(
    folder: str, inside: str, skipped: frozenset[str], ignores: "tuple[_Ignore, ...]", *, ignoring: bool
) -> Iterator[str]:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    if ignoring and any(entry.name == _IGNORE for entry in entries):
        ignores = (_Ignore(len(inside), _rules(os.path.join(folder, _IGNORE))), *ignores)  # noqa: PTH118 - as scandir spells it
    for entry in entries:
        path = inside + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if ignores and _is_ignored(ignores, path, entry.name, is_folder=is_folder):
            continue
        if is_folder:
            if entry.name not in skipped:
                yield from _below(entry.path, f"{path}/", skipped, ignores, ignoring=ignoring)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path.removeprefix("./")


class _Rule(NamedTuple):
    """One line of a .gitignore: a plain name, or a pattern. `is_kept` marks an exception (`!`)."""

    name: str
    glob: Glob | None
    is_kept: bool
    only_folders: bool


class _Ignore(NamedTuple):
    """A .gitignore file: the number of characters in the path of its folder, and its rules in reverse order."""

    depth: int
    rules: tuple[_Rule, ...]


def _rules(path: str) -> tuple[_Rule, ...]:
    try:
        opened = os.open(path, _READ)
        with os.fdopen(opened, "rb") as file:
            text = file.read(MAX_IGNORE).decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    return tuple(rule for line in reversed(text.splitlines()) if (rule := _rule(line)) is not None)


def _rule(line: str) -> _Rule | None:
    line = line if line.endswith("\\ ") else line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    is_kept, line = line.startswith("!"), line.removeprefix("!")
    only_folders, line = line.endswith("/"), line.removesuffix("/")
    if not _WILD.search(line) and "/" not in line:
        return _Rule(line, None, is_kept, only_folders)
    pattern = f"/{line.lstrip('/')}" if "/" in line else line
    try:
        return _Rule("", Glob.of(pattern.replace("{", "\\{").replace("}", "\\}")), is_kept, only_folders)
    except ValueError:
        return None


def _is_ignored(ignores: tuple[_Ignore, ...], path: str, name: str, *, is_folder: bool) -> bool:
    """Return whether .gitignore files exclude this path.

    The innermost file with a matching rule decides, by its last matching rule.
    """
    for depth, rules in ignores:
        for rule in rules:
            if rule.only_folders and not is_folder:
                continue
            if rule.name == name if rule.glob is None else rule.glob.matches(path[depth:]):
                return not rule.is_kept
    return False


# ── Lines ────────────────────────────────────────────────────────────────────────────────────────


class _Expression:
    """The compiled search pattern, for single lines and for whole files."""

    def __init__(self, pattern: str, *, is_literal: bool, ignores_case: bool) -> None:
        flags = re.IGNORECASE if ignores_case else 0
        text = re.escape(pattern) if is_literal else pattern
        self.line = re.compile(text, flags)
        self._whole = None if _LINE_BOUND.search(text) else re.compile(text, flags | re.MULTILINE)

    def may_match(self, text: str) -> bool:
        """Return whether any line of a text may match. Searching the whole text once rules out most files."""
        return self._whole is None or self._whole.search(text) is not None


def lines(path: str, wanted: _Expression) -> Iterator[bytes]:
    """Yield the matching lines of a text file, formatted for output."""
    try:
        data = b"" if Path(path).stat().st_size > MAX_FILE else Path(path).read_bytes()
    except OSError:
        return
    if b"\0" in data[:SNIFFED] or not wanted.may_match(_text(data.replace(b"\r\n", b"\n"))):
        return
    for number, raw in enumerate(data.split(b"\n"), 1):
        text = _text(raw.removesuffix(b"\r"))
        if found := wanted.line.search(text):
            column = len(text[: found.start()].encode("utf-8", "surrogateescape")) + 1
            yield b"%s\0%d:%d:%s\n" % (os.fsencode(path), number, column, raw[:MAX_PREVIEW])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
