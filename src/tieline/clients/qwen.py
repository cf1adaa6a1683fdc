"""Qwen Code."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile


def _launch(connection: Connection, _folder: str) -> Recipe:
    return Recipe(
        arguments=("--auth-type", "openai", "--model", connection.model),
        env={
            "OPENAI_BASE_URL": connection.api,
            "OPENAI_API_KEY": connection.key,
            "OPENAI_MODEL": connection.model,
        },
        unset=("QWEN_MODEL", "QWEN_DEFAULT_AUTH_TYPE"),
    )


def _settings(connection: Connection) -> Sequence[Setting]:
    variable = connection.key_variable or "TIELINE_API_KEY"
    model = {"id": connection.model, "name": connection.model, "baseUrl": connection.api, "envKey": variable}
    found = [
        Setting(("modelProviders", "openai"), model, match="id"),
        Setting(("security", "auth", "selectedType"), "openai"),
        Setting(("model", "name"), connection.model),
    ]
    return found if connection.key_variable else [*found, Setting(("env", variable), connection.key)]


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("--yolo", "--prompt", prompt))


QWEN = Client(
    id="qwen",
    title="Qwen Code",
    programs=("qwen",),
    install="npm install -g @qwen-code/qwen-code",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    is_set_in_shell=True,
    settings=SettingsFile(
        places=(Place("QWEN_HOME", "settings.json"), Place("HOME", ".qwen/settings.json")),
        format="json",
        settings=_settings,
    ),
    traces="its sessions and settings below ~/.qwen",
)
