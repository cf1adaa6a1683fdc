"""Claude Code."""

import json
from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile

MODEL_SIZES = ("FABLE", "OPUS", "SONNET", "HAIKU")
"""The sizes by which Claude Code selects a model for /model, subagents and background requests."""
UNSET = (
    "ANTHROPIC_API_KEY",  # a second credential: Claude Code warns about it
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_USE_*",
)


def variables(connection: Connection) -> dict[str, str]:
    """Return the variables that point Claude Code to the gateway, except the one for the key."""
    model = connection.model
    found = {
        "ANTHROPIC_BASE_URL": connection.url,
        "ANTHROPIC_MODEL": model,
        **{f"ANTHROPIC_DEFAULT_{size}_MODEL": model for size in MODEL_SIZES},
    }
    if connection.facts.context:
        # For an unknown model, Claude Code assumes a window of a million tokens.
        found["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(connection.facts.context)
    return found


def _shell(connection: Connection, _folder: str) -> Recipe:
    return Recipe(env={**variables(connection), "ANTHROPIC_AUTH_TOKEN": connection.key}, unset=UNSET)


def _launch(connection: Connection, folder: str) -> Recipe:
    env = {**variables(connection), "ANTHROPIC_AUTH_TOKEN": connection.key}
    # The `env` block in the user's own settings overrides the environment, and this file overrides that block. The file
    # cannot refer to a variable, so it contains the key as well.
    settings = {"env": {**env, "ANTHROPIC_API_KEY": ""}}
    return Recipe(
        arguments=("--settings", f"{folder}/settings.json"),
        env=env,
        unset=UNSET,
        files={"settings.json": json.dumps(settings, indent=2) + "\n"},
    )


def _settings(connection: Connection) -> Sequence[Setting]:
    found = [Setting(("env", name), value) for name, value in variables(connection).items()]
    if connection.key_variable:
        return [*found, Setting(("apiKeyHelper",), f"printenv {connection.key_variable}")]
    return [*found, Setting(("env", "ANTHROPIC_AUTH_TOKEN"), connection.key)]


def _headless(prompt: str) -> Headless:
    # Claude Code rejects --dangerously-skip-permissions for root, so the allowed tools are listed instead.
    return Headless(arguments=("-p", prompt, "--allowedTools", "Read,Write,Edit,Bash,Glob,Grep"))


CLAUDE = Client(
    id="claude",
    title="Claude Code",
    programs=("claude",),
    install="npm install -g @anthropic-ai/claude-code",
    protocol="messages",
    launch=_launch,
    shell=_shell,
    headless=_headless,
    is_set_in_shell=True,
    settings=SettingsFile(
        places=(Place("CLAUDE_CONFIG_DIR", "settings.json"), Place("HOME", ".claude/settings.json")),
        format="json",
        settings=_settings,
    ),
    about="In the shell that starts it. The address has no /v1 at the end.",
    traces="its sessions and settings below ~/.claude, and ~/.claude.json",
)
