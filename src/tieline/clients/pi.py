"""pi, a small coding agent."""

import json
from collections.abc import Sequence
from typing import Any

from tieline.clients.client import KEY_VARIABLE, Client, Connection, Headless, Place, Recipe, Setting, SettingsFile

EXTENSION = 'export default function (pi) {\n  pi.registerProvider("tieline", %s);\n}\n'


def _provider(connection: Connection) -> dict[str, Any]:
    model = {
        "id": connection.model,
        "name": connection.model,
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": connection.context,
        "maxTokens": connection.output,
    }
    # pi takes the name of a variable, or the key itself.
    key = connection.key_variable or connection.key
    return {"baseUrl": connection.api, "api": "openai-completions", "apiKey": key, "models": [model]}


def _settings(connection: Connection) -> Sequence[Setting]:
    return [Setting(("providers", "tieline"), _provider(connection))]


def _launch(connection: Connection, folder: str) -> Recipe:
    # An extension adds the provider to the user's own. Replacing models.json would hide all of the user's settings.
    provider = _provider(connection.with_variable())
    return Recipe(
        arguments=("--extension", f"{folder}/tieline.js", "--model", f"tieline/{connection.model}"),
        env={KEY_VARIABLE: connection.key},
        files={"tieline.js": EXTENSION % json.dumps(provider, indent=2)},
    )


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("--no-session", "--print", prompt), env={"PI_OFFLINE": "1"})


PI = Client(
    id="pi",
    title="pi",
    programs=("pi",),
    install="npm install -g @mariozechner/pi-coding-agent",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=SettingsFile(
        places=(Place("PI_CODING_AGENT_DIR", "models.json"), Place("HOME", ".pi/agent/models.json")),
        format="json",
        settings=_settings,
        note="Start it with `pi --model tieline/<model>`, or choose the model with /model.",
    ),
    traces="its sessions and settings below ~/.pi",
)
