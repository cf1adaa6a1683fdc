"""Finds programs on a PATH, on POSIX systems and Windows."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

ENDINGS = ".COM;.EXE;.BAT;.CMD"
"""The file extensions of programs on Windows, unless the variable PATHEXT lists others."""


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """Return the path of a program on the PATH of `env`, or None if there is none.

    On Windows, `shutil.which` is not used: it looks in the working directory first, which may contain programs that the
    user does not trust.
    """
    path = env.get("PATH", "")
    if sys.platform != "win32":
        return shutil.which(name, path=path)
    names = list(_names(name, env.get("PATHEXT", ENDINGS)))
    is_path = len(PurePath(name).parts) > 1
    folders = [""] if is_path else [folder for folder in path.split(os.pathsep) if folder]
    found = (Path(folder, one) for folder in folders for one in names)
    return next((str(one) for one in found if one.is_file()), None)


def _names(name: str, endings: str) -> Iterator[str]:
    """Yield the names of files that Windows runs as `name`. A file without an extension is for another system."""
    known = [ending.lower() for ending in endings.split(";") if ending]
    if PurePath(name).suffix.lower() in known:
        yield name
    else:
        yield from (name + ending for ending in known)
