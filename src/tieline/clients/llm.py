"""llm, a command-line tool for prompts."""

import json
from collections.abc import Sequence

from tieline.clients.client import ANY_KEY, Client, Connection, Headless, Place, Recipe, Setting, SettingsFile
from tieline.clients.settings_text import new_text


def _settings(connection: Connection) -> Sequence[Setting]:
    model = {
        "model_id": "tieline",
        "model_name": connection.model,
        "api_base": connection.api,
        "supports_tools": True,
    }
    if connection.key != ANY_KEY:
        model["api_key_name"] = "tieline"
    return [Setting((), model, match="model_id")]


FILE = SettingsFile(
    places=(
        Place("LLM_USER_PATH", "extra-openai-models.yaml"),
        Place("HOME", "Library/Application Support/io.datasette.llm/extra-openai-models.yaml", system="darwin"),
        Place("XDG_CONFIG_HOME", "io.datasette.llm/extra-openai-models.yaml"),
        Place("HOME", ".config/io.datasette.llm/extra-openai-models.yaml"),
    ),
    format="yaml",
    settings=_settings,
    note="Use the model with `llm -m tieline`. If the gateway has a key, store it with `llm keys set tieline`.",
)


def _launch(connection: Connection, folder: str) -> Recipe:
    # llm reads this key only from a file.
    return Recipe(
        env={"LLM_USER_PATH": folder, "LLM_MODEL": "tieline"},
        files={
            "extra-openai-models.yaml": new_text(FILE, connection),
            "keys.json": json.dumps({"tieline": connection.key}) + "\n",
            "default_model.txt": "tieline",
        },
        notes=("Your own keys, templates and logs of llm are not used in this session, and it is not logged.",),
    )


FILE_TOOLS = """\
def read_file(path: str) -> str:
    "Return the content of a file."
    with open(path) as file:
        return file.read()

def write_file(path: str, content: str) -> str:
    "Write a file."
    with open(path, "w") as file:
        file.write(content)
    return "The file was written."
"""
"""Tools for a prompt without a terminal: llm has no tools of its own that read and write files."""


def _headless(prompt: str) -> Headless:
    return Headless(arguments=("prompt", "--functions", FILE_TOOLS, "--no-stream", prompt))


LLM = Client(
    id="llm",
    title="llm",
    programs=("llm",),
    install="python -m pip install llm",
    protocol="chat",
    launch=_launch,
    headless=_headless,
    settings=FILE,
)
