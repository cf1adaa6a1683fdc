"""The command as a process of its own, as a person runs it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

WAIT = 60.0
"""No wait takes longer, not even on a slow machine."""

LOADED = """
import json, sys
from tieline.cli.main import main
try:
    sys.exit(main())
finally:
    print("\\n" + json.dumps(sorted(sys.modules)))
"""
"""The command, and at its end the modules that it loaded, as the last line."""


def command(*arguments: str, tells_loaded: bool = False) -> list[str]:
    """The command line; one that `tells_loaded` prints the modules it loaded at its end."""
    return [sys.executable, *(["-c", LOADED] if tells_loaded else ["-m", "tieline"]), *arguments]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG")}
    return {**kept, "HOME": str(home), **more}


def configured(home: Path, text: str) -> Path:
    """Write the user's own configuration file; the folder it is in."""
    folder = home / ".config" / "tieline"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tieline.toml").write_text(text, "utf-8")
    return folder


def ran(
    home: Path, *arguments: str, tells_loaded: bool = False, typed: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        command(*arguments, tells_loaded=tells_loaded),
        cwd=home,
        env=environment(home, **more),
        input=typed,
        capture_output=True,
        text=True,
        timeout=WAIT,
    )


@contextmanager
def serving(
    home: Path, *arguments: str, tells_loaded: bool = False, **more: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        command("serve", "--port", "0", *arguments, tells_loaded=tells_loaded),
        cwd=home,
        env=environment(home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # What it prints is read without a bound of its own: its end is one.
    bound = Timer(3 * WAIT, process.kill)
    bound.start()
    try:
        assert process.stdout is not None
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found is not None
        yield process, int(found[1])
    finally:
        bound.cancel()
        process.kill()
        process.communicate(timeout=WAIT)


def said(process: subprocess.Popen[str]) -> str:
    """What a process printed after its first line, until it ended."""
    assert process.stdout is not None
    output = process.stdout.read()
    process.wait(WAIT)
    return output
