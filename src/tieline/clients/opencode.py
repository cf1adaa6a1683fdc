"""OpenCode, and Kilo, which is derived from it and takes the same settings."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tieline.clients.client import Client, Connection, Headless, Launch, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text

SCHEMAS = {"opencode": "https://opencode.ai/config.json", "kilo": "https://app.kilo.ai/config.json"}


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


def _settings(schema: str, connection: Connection) -> Sequence[Setting]:
    model = f"tieline/{connection.model}"
    return [
        Setting(("$schema",), schema, is_default=True),  # otherwise the client adds it to the file
        Setting(("provider", "tieline"), _provider(connection)),
        Setting(("model",), model),
        Setting(("small_model",), model),
    ]


def _launch(prefix: str) -> Launch:
    def launch(connection: Connection, _folder: str) -> Recipe:
        inner = connection.with_variable()
        # OpenCode merges this content with the user's settings, and reads it last.
        content = f"{prefix}_CONFIG_CONTENT"
        return Recipe(env={content: new_text(_file(prefix.lower()), inner), **inner.key_env}, unset=(content,))

    return launch


def _headless(prefix: str) -> Callable[[str], Headless]:
    permissions = json.dumps({"*": "allow"})
    return lambda prompt: Headless(
        arguments=("run", prompt),
        env={
            f"{prefix}_PERMISSION": permissions,
            f"{prefix}_DISABLE_AUTOUPDATE": "1",
            f"{prefix}_DISABLE_MODELS_FETCH": "1",
            f"{prefix}_DISABLE_LSP_DOWNLOAD": "1",
        },
    )


def _file(name: str) -> SettingsFile:
    return SettingsFile(
        places=(
            Place(f"{name.upper()}_CONFIG", ""),
            Place("XDG_CONFIG_HOME", f"{name}/{name}.json"),
            Place("HOME", f".config/{name}/{name}.json"),
        ),
        names=(f"{name}.jsonc",),
        format="json",
        settings=partial(_settings, SCHEMAS[name]),
    )


OPENCODE = Client(
    id="opencode",
    title="OpenCode",
    programs=("opencode",),
    install="npm install -g opencode-ai",
    protocol="chat",
    launch=_launch("OPENCODE"),
    headless=_headless("OPENCODE"),
    settings=_file("opencode"),
    traces="its sessions and logs below ~/.local/share/opencode",
)
KILO = Client(
    id="kilo",
    title="Kilo",
    programs=("kilo", "kilocode"),
    install="npm install -g @kilocode/cli",
    protocol="chat",
    launch=_launch("KILO"),
    headless=_headless("KILO"),
    settings=_file("kilo"),
    traces="its sessions and logs below ~/.local/share/kilo",
)
