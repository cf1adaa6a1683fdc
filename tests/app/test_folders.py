"""Where files are kept on each system."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.each import each
from tieline.app.folders import state_folder, user_folder

WINDOWS = {"APPDATA": "/users/me/Roaming", "LOCALAPPDATA": "/users/me/Local", "HOME": "/git-bash"}


@each(
    ("platform", "env", "settings", "state"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.config/tieline", "/home/me/.local/state/tieline"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/.config/tieline", "/Users/me/.local/state/tieline"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/tieline", "/s/tieline"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s"}, "/h/.config/tieline", None),
        ("linux", {**WINDOWS, "HOME": "/h"}, "/h/.config/tieline", "/h/.local/state/tieline"),
        ("win32", WINDOWS, "/users/me/Roaming/tieline", "/users/me/Local/tieline"),
        ("win32", {**WINDOWS, "XDG_CONFIG_HOME": "/c"}, "/c/tieline", "/users/me/Local/tieline"),
    ],
)
def test_each_system_has_its_folders(
    platform: str, env: Mapping[str, str], settings: str, state: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert user_folder(env) == Path(settings)
    if state is not None:
        assert state_folder(env) == Path(state)


def test_without_any_variable_the_account_says_where_its_home_is(monkeypatch: pytest.MonkeyPatch) -> None:
    home = user_folder({}).parents[1]
    assert home.is_absolute()
    monkeypatch.delattr(os, "getuid")
    monkeypatch.setenv("HOME", "/profile")
    assert user_folder({}) == Path("/profile/.config/tieline")
    assert state_folder({}) is None
