"""What stands in for ripgrep where it is not installed: a program that finds files, and lines in them.

    files FLAGS                         every file below the current directory
    lines FLAGS PATTERN NAMES [FILE]    lines that match, in files whose path fits the pattern NAMES

FLAGS are letters: `i` takes upper and lower case for the same, `F` takes PATTERN as plain text, `a` looks also into
folders that are hardly ever meant. Written is what ripgrep is asked to write: paths ended by a zero byte, and for each
line its path, a zero byte and `LINE:COLUMN:TEXT`. This is a process of its own because a regular expression can run for
ever, and a thread cannot be ended.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tieline.tools.globs import Glob

OWN = frozenset({".git"})
SKIPPED = OWN | {".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".tox"}
MAX_FILE = 64 << 20
MAX_PREVIEW = 512
SNIFFED = 8192


def main(arguments: list[str]) -> int:
    """Do what the command line says; 2 with a text on standard error if that cannot be."""
    flags = arguments[1]
    skipped = SKIPPED if "a" not in flags else OWN
    if arguments[0] == "files":
        for path in files(".", skipped):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        return 0
    pattern, names, *only = arguments[2:]
    try:
        wanted = re.compile(re.escape(pattern) if "F" in flags else pattern, re.IGNORECASE if "i" in flags else 0)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    glob = Glob.of(names)
    for path in only or (path for path in files(".", skipped) if glob.matches(path)):
        for line in lines(path, wanted):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return 0


def files(top: str, skipped: frozenset[str]) -> Iterator[str]:
    """Every regular file, in the order of the paths; links are not followed."""
    try:
        with os.scandir(top) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = entry.path.removeprefix("./")
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in skipped:
                yield from files(entry.path, skipped)
        elif entry.is_file(follow_symlinks=False):
            yield path


def lines(path: str, wanted: re.Pattern[str]) -> Iterator[bytes]:
    """The lines of a text file that match."""
    try:
        data = b"" if Path(path).stat().st_size > MAX_FILE else Path(path).read_bytes()
    except OSError:
        return
    if b"\0" in data[:SNIFFED]:
        return
    for number, raw in enumerate(data.split(b"\n"), 1):
        text = raw.removesuffix(b"\r").decode("utf-8", "surrogateescape")
        if found := wanted.search(text):
            column = len(text[: found.start()].encode("utf-8", "surrogateescape")) + 1
            yield b"%s\0%d:%d:%s\n" % (os.fsencode(path), number, column, raw[:MAX_PREVIEW])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
