"""goose."""

from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile


def _launch(connection: Connection, _folder: str) -> Recipe:
    env = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": connection.model,
        "OPENAI_HOST": connection.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": connection.key,
    }
    if connection.facts.context:
        env["GOOSE_CONTEXT_LIMIT"] = str(connection.facts.context)
    return Recipe(
        env=env,
        unset=("GOOSE_LEAD_*", "GOOSE_PLANNER_*", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"),
    )


def _settings(connection: Connection) -> Sequence[Setting]:
    return [
        Setting(("GOOSE_PROVIDER",), "openai"),
        Setting(("GOOSE_MODEL",), connection.model),
        Setting(("OPENAI_HOST",), connection.url),
        Setting(("OPENAI_BASE_PATH",), "v1/chat/completions"),
    ]


def _headless(prompt: str) -> Headless:
    return Headless(
        arguments=("run", "--no-session", "--with-builtin", "developer", "--text", prompt), env={"GOOSE_MODE": "auto"}
    )


GOOSE = Client(
    id="goose",
    title="goose",
    programs=("goose",),
    install="npm install -g @aaif/goose",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    is_set_in_shell=True,
    settings=SettingsFile(
        places=(Place("XDG_CONFIG_HOME", "goose/config.yaml"), Place("HOME", ".config/goose/config.yaml")),
        format="yaml",
        settings=_settings,
        note="Set OPENAI_API_KEY as well: goose does not read keys from this file. Without a key of the gateway, any "
        "text will do.",
    ),
    traces="its sessions and logs below ~/.local/share/goose and ~/.local/state/goose",
)
