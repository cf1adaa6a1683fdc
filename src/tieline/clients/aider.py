"""aider."""

import json
from collections.abc import Sequence

from tieline.clients.client import Client, Connection, Headless, Place, Recipe, Setting, SettingsFile


def _launch(connection: Connection, folder: str) -> Recipe:
    model = f"openai/{connection.model}"
    # Each option of aider has an AIDER_ variable, which overrides the user's configuration file.
    env = {
        "AIDER_OPENAI_API_BASE": connection.api,
        "AIDER_OPENAI_API_KEY": connection.key,
        "AIDER_MODEL": model,
        "AIDER_WEAK_MODEL": model,
        "AIDER_EDITOR_MODEL": model,
        "AIDER_SHOW_MODEL_WARNINGS": "false",
    }
    files = {}
    if connection.facts.context:
        env["AIDER_MODEL_METADATA_FILE"] = f"{folder}/models.json"
        files["models.json"] = json.dumps({model: _metadata(connection)}, indent=2) + "\n"
    return Recipe(
        env=env, unset=("OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_TYPE", "OPENAI_ORGANIZATION"), files=files
    )


def _metadata(connection: Connection) -> dict[str, object]:
    return {
        "max_input_tokens": connection.context,
        "max_output_tokens": connection.output,
        "litellm_provider": "openai",
        "mode": "chat",
    }


def _shell(connection: Connection, _folder: str) -> Recipe:
    return Recipe(
        arguments=("--model", f"openai/{connection.model}", "--no-show-model-warnings"),
        env={"OPENAI_API_BASE": connection.api, "OPENAI_API_KEY": connection.key},
    )


def _settings(connection: Connection) -> Sequence[Setting]:
    model = f"openai/{connection.model}"
    return [
        Setting(("model",), model),
        Setting(("weak-model",), model),
        Setting(("openai-api-base",), connection.api),
        *([] if connection.key_variable else [Setting(("openai-api-key",), connection.key)]),
        Setting(("show-model-warnings",), False),
    ]


def _headless(prompt: str) -> Headless:
    return Headless(
        arguments=(
            *("--no-git", "--yes-always", "--no-check-update", "--no-analytics", "--no-show-release-notes"),
            *("--no-detect-urls", "--no-pretty", "--no-stream", "--message", prompt),
        ),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        uses_tools=False,
    )


AIDER = Client(
    id="aider",
    title="aider",
    programs=("aider",),
    install="python -m pip install aider-chat",
    protocol="chat",
    launch=_launch,
    shell=_shell,
    headless=_headless,
    is_set_in_shell=True,
    settings=SettingsFile(
        places=(Place("HOME", ".aider.conf.yml"),),
        format="yaml",
        settings=_settings,
        note="If the gateway has a key, set OPENAI_API_KEY to it.",
    ),
    about="aider uses no tools: it saves the files it finds in the answer.",
    traces="its history in the working directory (.aider.*), and ~/.aider",
)
