"""The per-user folders of the gateway: configuration and state."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings, logins and trusted files; never relative to the working directory."""
    base, home = _absolute(env.get("XDG_CONFIG_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return (home or Path(pwd.getpwuid(os.getuid()).pw_dir)) / ".config" / "tieline"


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Return the folder of sessions and the audit log; None if the environment does not define one."""
    base, home = _absolute(env.get("XDG_STATE_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return home / ".local" / "state" / "tieline" if home is not None else None


def _absolute(folder: str | None) -> Path | None:
    """Return a folder of the environment. The XDG specification requires relative paths to be ignored."""
    return Path(folder) if folder and Path(folder).is_absolute() else None
