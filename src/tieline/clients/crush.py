"""Crush."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text


def _settings(connection: Connection) -> Sequence[Setting]:
    model = {
        "id": connection.model,
        "name": connection.model,
        "context_window": connection.context,
        "default_max_tokens": connection.output,
    }
    provider = {
        "name": "Tieline",
        "type": "openai-compat",
        "base_url": connection.api,
        "api_key": connection.key_as("${}"),
        "models": [model],
    }
    chosen = {"provider": "tieline", "model": connection.model}
    return [
        Setting(("providers", "tieline"), provider),
        Setting(("models", "large"), chosen),
        Setting(("models", "small"), chosen),
    ]


FILE = SettingsFile(
    places=(
        Place("CRUSH_GLOBAL_CONFIG", "crush.json"),
        Place("XDG_CONFIG_HOME", "crush/crush.json"),
        Place("HOME", ".config/crush/crush.json"),
    ),
    format="json",
    settings=_settings,
    note="A model that you have chosen in Crush itself takes precedence; choose Tieline's there.",
)


def _launch(connection: Connection, folder: str) -> Recipe:
    inner = connection.with_variable()
    return Recipe(
        env={
            **inner.key_env,
            "CRUSH_GLOBAL_CONFIG": folder,
            "CRUSH_GLOBAL_DATA": f"{folder}/data",
            "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE": "1",
        },
        files={"crush.json": new_text(FILE, inner)},
        notes=("Your own settings of Crush are not used in this session. Those of the project are.",),
    )


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("run", "--quiet", prompt))


CRUSH = Client(
    id="crush",
    title="Crush",
    programs=("crush",),
    install="npm install -g @charmland/crush",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=FILE,
    traces="its sessions in .crush in the working directory",
)
