"""The command-line version of Continue."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text


def _settings(connection: Connection) -> Sequence[Setting]:
    model = {
        "name": "tieline",
        "provider": "openai",
        "model": connection.model,
        "apiBase": connection.api,
        "apiKey": connection.key_as("${{ secrets.{} }}"),
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
        "defaultCompletionOptions": {"contextLength": connection.context, "maxTokens": connection.output},
    }
    return [
        Setting(("name",), "Tieline", is_default=True),
        Setting(("version",), "1.0.0", is_default=True),
        Setting(("schema",), "v1", is_default=True),
        Setting(("models",), model, match="name"),
    ]


FILE = SettingsFile(
    places=(Place("CONTINUE_GLOBAL_DIR", "config.yaml"), Place("HOME", ".continue/config.yaml")),
    format="yaml",
    settings=_settings,
    note="Choose the model `tieline` in Continue.",
)


def _launch(connection: Connection, folder: str) -> Recipe:
    return Recipe(
        arguments=("--config", f"{folder}/config.yaml"),
        env=connection.with_variable().key_env,
        files={"config.yaml": new_text(FILE, connection.with_variable())},
        notes=("Your own config.yaml of Continue, with its rules and MCP servers, is not used in this session.",),
    )


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("--auto", "--print", prompt))


CONTINUE = Client(
    id="continue",
    title="Continue",
    programs=("cn",),
    install="npm install -g @continuedev/cli",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=FILE,
    traces="its sessions and logs below ~/.continue",
)
