"""The per-user folders of the gateway: configuration and state.

Linux and macOS follow the XDG specification. On Windows, the same folders are in the user's profile.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the absolute path of the folder that holds the user's settings, logins and records of trusted files."""
    base = _absolute(env.get("XDG_CONFIG_HOME")) or _profile(env, "APPDATA")
    if base is not None:
        return base / "tieline"
    return (_absolute(env.get("HOME")) or _account_home()) / ".config" / "tieline"


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Return the folder that holds sessions and the audit log; None if no variable in `env` locates it."""
    base, home = _absolute(env.get("XDG_STATE_HOME")) or _profile(env, "LOCALAPPDATA"), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return home / ".local" / "state" / "tieline" if home is not None else None


def _profile(env: Mapping[str, str], name: str) -> Path | None:
    """Return a folder in the user's profile on Windows; None on other systems."""
    return _absolute(env.get(name)) if sys.platform == "win32" else None


def _account_home() -> Path:
    """Return the home folder that the system has recorded for this user."""
    if not hasattr(os, "getuid"):
        return Path.home()
    import pwd  # noqa: PLC0415 - rarely needed, and missing on Windows

    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def _absolute(folder: str | None) -> Path | None:
    """Return `folder` as a path, or None if it is unset or relative: the XDG specification ignores relative paths."""
    return Path(folder) if folder and Path(folder).is_absolute() else None
