"""OpenCode, and Kilo, which is derived from it and takes the same settings."""

import json
from collections.abc import Sequence
from typing import Any

from tieline.clients.client import (
    KEY_VARIABLE,
    Client,
    Connection,
    Headless,
    Place,
    Recipe,
    Setting,
    SettingsFile,
)


def _provider(connection: Connection) -> dict[str, Any]:
    model = connection.model
    shown = {
        "name": model.rpartition("/")[2],
        "tool_call": True,
        "limit": {"context": connection.context, "output": connection.output},
    }
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Tieline",
        "options": {"baseURL": connection.api, "apiKey": connection.key_as("{env:{}}")},
        "models": {model: shown},
    }


def _settings(connection: Connection) -> Sequence[Setting]:
    model = f"tieline/{connection.model}"
    return [
        Setting(("provider", "tieline"), _provider(connection)),
        Setting(("model",), model),
        Setting(("small_model",), model),
    ]


def _opencode(connection: Connection, _folder: str) -> Recipe:
    return _launch("OPENCODE", connection)


def _launch(prefix: str, connection: Connection) -> Recipe:
    inner = Connection(url=connection.url, model=connection.model, key_variable=KEY_VARIABLE, facts=connection.facts)
    content = {setting.path[0]: setting.value for setting in _settings(inner) if len(setting.path) == 1}
    content["provider"] = {"tieline": _provider(inner)}
    # This content is merged with the user's settings, and it is read last.
    return Recipe(
        env={f"{prefix}_CONFIG_CONTENT": json.dumps(content), KEY_VARIABLE: connection.key},
        unset=(f"{prefix}_CONFIG_CONTENT",),
    )


def _headless(prompt: str) -> Headless:
    permissions = json.dumps({"edit": "allow", "bash": "allow", "webfetch": "deny"})
    return Headless(arguments=("run", prompt), env={"OPENCODE_PERMISSION": permissions})


OPENCODE = Client(
    id="opencode",
    title="OpenCode",
    programs=("opencode",),
    install="npm install -g opencode-ai",
    protocol="chat",
    launch=_opencode,
    headless=_headless,
    settings=SettingsFile(
        places=(
            Place("OPENCODE_CONFIG", ""),
            Place("XDG_CONFIG_HOME", "opencode/opencode.json"),
            Place("HOME", ".config/opencode/opencode.json"),
        ),
        names=("opencode.jsonc",),
        format="json",
        settings=_settings,
    ),
    traces="its sessions and logs below ~/.local/share/opencode",
)
