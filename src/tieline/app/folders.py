"""The per-user folders of the gateway: configuration and state."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the absolute path of the folder that holds the user's settings, logins and records of trusted files."""
    base, home = _absolute(env.get("XDG_CONFIG_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return (home or Path(pwd.getpwuid(os.getuid()).pw_dir)) / ".config" / "tieline"


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Return the folder that holds sessions and the audit log; None if neither XDG_STATE_HOME nor HOME is set."""
    base, home = _absolute(env.get("XDG_STATE_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return home / ".local" / "state" / "tieline" if home is not None else None


def _absolute(folder: str | None) -> Path | None:
    """Return `folder` as a path, or None if it is unset or relative: the XDG specification ignores relative paths."""
    return Path(folder) if folder and Path(folder).is_absolute() else None
