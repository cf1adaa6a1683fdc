"""The command-line version of Cline."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text

PROVIDER = "openai-compatible"


def _settings(connection: Connection) -> Sequence[Setting]:
    settings = {
        "provider": PROVIDER,
        "model": connection.model,
        "apiKey": connection.key,
        "baseUrl": connection.api,
    }
    return [
        Setting(("version",), 1, is_default=True),
        Setting(("lastUsedProvider",), PROVIDER),
        Setting(("modes",), {}, is_default=True),
        Setting(
            ("providers", PROVIDER),
            {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"},
        ),
    ]


FILE = SettingsFile(
    places=(Place("CLINE_DATA_DIR", "settings/providers.json"), Place("HOME", ".cline/data/settings/providers.json")),
    format="json",
    settings=_settings,
)


def _launch(connection: Connection, folder: str) -> Recipe:
    # There is no way to refer to a variable in this file, so it contains the key.
    return Recipe(
        arguments=("--provider", PROVIDER, "--model", connection.model),
        env={"CLINE_PROVIDER_SETTINGS_PATH": f"{folder}/providers.json", "CLINE_SESSION_BACKEND_MODE": "local"},
        unset=("CLINE_API_KEY", "CLINE_MODEL", "CLINE_PROVIDER"),
        files={"providers.json": new_text(FILE, connection)},
    )


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("--auto-approve", "true", prompt))


CLINE = Client(
    id="cline",
    title="Cline",
    programs=("cline",),
    install="npm install -g cline",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=FILE,
    traces="its tasks and logs below ~/.cline",
)
