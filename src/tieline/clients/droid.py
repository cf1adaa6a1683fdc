"""Droid, Factory's client."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text

MODEL = "custom:Tieline-0"
"""Droid's own id for the model, which consists of its displayed name and its position in the list."""


def _settings(connection: Connection) -> Sequence[Setting]:
    model = {
        "model": connection.model,
        "displayName": "Tieline",
        "baseUrl": connection.api,
        "apiKey": connection.key_as("${{}}"),
        "provider": "generic-chat-completion-api",
        "maxOutputTokens": connection.output,
    }
    return [Setting(("customModels",), model, match="displayName")]


def _chosen(connection: Connection) -> Sequence[Setting]:
    return [*_settings(connection), Setting(("sessionDefaultSettings", "model"), MODEL)]


def _launch(connection: Connection, folder: str) -> Recipe:
    inner = connection.with_variable()
    file = SettingsFile(places=(), format="json", settings=_chosen)
    return Recipe(
        arguments=("--settings", f"{folder}/settings.json"),
        env=inner.key_env,
        files={"settings.json": new_text(file, inner)},
        notes=("On a terminal, Droid may ask you to log in to Factory first.",),
    )


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("exec", "--model", MODEL, "--skip-permissions-unsafe", prompt))


DROID = Client(
    id="droid",
    title="Droid",
    programs=("droid",),
    install="npm install -g droid",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=SettingsFile(
        places=(Place("FACTORY_HOME_OVERRIDE", ".factory/settings.json"), Place("HOME", ".factory/settings.json")),
        format="json",
        settings=_settings,
        note="Choose the model Tieline with /model.",
    ),
    traces="its sessions and logs below ~/.factory",
)
