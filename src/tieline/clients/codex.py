"""Codex, OpenAI's command-line client."""

import json
from collections.abc import Sequence

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


def _settings(connection: Connection) -> Sequence[Setting]:
    return _provider_settings(connection, "tieline")


def _provider_settings(connection: Connection, name: str) -> Sequence[Setting]:
    path = ("model_providers", name)
    # Codex reads the list of models, with their context windows, only from a provider whose key a command prints.
    command = ("printenv", connection.key_variable) if connection.key_variable else ("echo", connection.key)
    provider = {"name": "Tieline", "base_url": connection.api, "wire_api": "responses", "supports_websockets": True}
    return [
        Setting(("model",), connection.model),
        Setting(("model_provider",), name),
        *(Setting((*path, key), value) for key, value in provider.items()),
        Setting((*path, "auth", "command"), command[0]),
        Setting((*path, "auth", "args"), [command[1]]),
        Setting(("tools", "update_plan", "enabled"), True),  # recent versions need this to offer their planning tool
    ]


def _launch(connection: Connection, _folder: str) -> Recipe:
    arguments: list[str] = []
    # The name differs from that in the user's file, because options are merged with the file.
    for setting in _provider_settings(connection.with_variable(), "tieline-run"):
        # The value is TOML. For these types, TOML and JSON are written in the same way.
        arguments += ["-c", f"{'.'.join(setting.path)}={json.dumps(setting.value)}"]
    return Recipe(
        arguments=tuple(arguments), env={KEY_VARIABLE: connection.key}, unset=("OPENAI_BASE_URL", "CODEX_OSS_*")
    )


def _headless(prompt: str) -> Headless:
    return Headless(
        arguments=("exec", "--skip-git-repo-check", "--ephemeral", "--dangerously-bypass-approvals-and-sandbox", prompt)
    )


CODEX = Client(
    id="codex",
    title="Codex",
    programs=("codex",),
    install="npm install -g @openai/codex",
    protocol="responses",
    launch=_launch,
    headless=_headless,
    settings=SettingsFile(
        places=(Place("CODEX_HOME", "config.toml"), Place("HOME", ".codex/config.toml")),
        format="toml",
        settings=_settings,
    ),
    traces="its sessions, logs and state below ~/.codex",
)
