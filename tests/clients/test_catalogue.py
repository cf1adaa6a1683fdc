"""The recipes of all clients: they lead to the gateway, and they do not show the key to other programs."""

import json
import tomllib

from tests.each import each
from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import Client, Connection
from tieline.clients.settings_text import changed_text, new_text
from tieline.model.ports import ModelFacts

FOLDER = "/private/folder"
KEY = "sk-the-key-of-the-gateway"
PLAIN = Connection(url="http://127.0.0.1:18741", model="up/qwen3-coder", key=KEY)
KNOWN = Connection(url=PLAIN.url, model=PLAIN.model, key=KEY, facts=ModelFacts(context=32_768, max_output=4_096))
ALL = list(CLIENTS.values())
WITH_FILE = [client for client in ALL if client.settings is not None]
KEY_IN_FILE = {"claude", "cline", "llm"}
"""Clients whose files cannot refer to a variable."""


def name(client: Client) -> str:
    return client.id


@each("client", ALL, ids=name)
def test_a_recipe_leads_to_the_gateway_and_the_model(client: Client) -> None:
    recipe = client.launch(PLAIN, FOLDER)
    all_settings = "\n".join((*recipe.arguments, *recipe.env.values(), *recipe.files.values()))
    assert PLAIN.url in all_settings
    assert PLAIN.model in all_settings
    assert KEY in "\n".join((*recipe.env.values(), *recipe.files.values()))


@each("client", ALL, ids=name)
def test_the_key_is_never_an_argument_and_in_a_file_only_if_there_is_no_other_way(client: Client) -> None:
    recipe = client.launch(PLAIN, FOLDER)
    assert KEY not in "\n".join(recipe.arguments)
    assert (KEY in "\n".join(recipe.files.values())) == (client.id in KEY_IN_FILE)


@each("client", ALL, ids=name)
def test_files_are_below_the_private_folder_and_used(client: Client) -> None:
    recipe = client.launch(KNOWN, FOLDER)
    for path in recipe.files:
        assert not path.startswith("/")
        assert ".." not in path
    mentions = any(FOLDER in word for word in (*recipe.arguments, *recipe.env.values()))
    assert mentions == bool(recipe.files)


@each("client", ALL, ids=name)
def test_a_recipe_does_not_unset_what_it_sets(client: Client) -> None:
    recipe = client.launch(KNOWN, FOLDER)
    exact = {pattern for pattern in recipe.unset if not pattern.endswith("*")}
    assert not exact & set(recipe.env) - {"OPENCODE_CONFIG_CONTENT", "KILO_CONFIG_CONTENT"}


@each("client", ALL, ids=name)
def test_a_headless_run_contains_the_prompt_once(client: Client) -> None:
    assert client.headless("read it").arguments.count("read it") == 1


@each(
    ("client", "setting"),
    [
        ("claude", ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "32768")),
        ("goose", ("GOOSE_CONTEXT_LIMIT", "32768")),
        ("copilot", ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "32768")),
        ("copilot", ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "4096")),
    ],
)
def test_known_limits_are_set_and_unknown_ones_are_not(client: str, setting: tuple[str, str]) -> None:
    assert setting in CLIENTS[client].launch(KNOWN, FOLDER).env.items()
    assert setting[0] not in CLIENTS[client].launch(PLAIN, FOLDER).env


def test_known_limits_of_opencode() -> None:
    content = json.loads(CLIENTS["opencode"].launch(KNOWN, FOLDER).env["OPENCODE_CONFIG_CONTENT"])
    [model] = content["provider"]["tieline"]["models"].values()
    assert model["limit"] == {"context": 32_768, "output": 4_096}


def test_the_options_of_codex_are_toml() -> None:
    arguments = CLIENTS["codex"].launch(PLAIN, FOLDER).arguments
    assert set(arguments[::2]) == {"-c"}
    settings = tomllib.loads("\n".join(arguments[1::2]))
    provider = settings["model_providers"][settings["model_provider"]]
    assert provider["base_url"] == "http://127.0.0.1:18741/v1"
    assert provider["auth"] == {"command": "printenv", "args": ["TIELINE_API_KEY"]}


@each("client", WITH_FILE, ids=name)
def test_settings_that_are_written_twice_do_not_change(client: Client) -> None:
    assert client.settings is not None
    text = new_text(client.settings, PLAIN)
    assert changed_text(client.settings, text, PLAIN) == text
    assert PLAIN.model in text


@each("client", WITH_FILE, ids=name)
def test_a_key_in_a_variable_is_not_written(client: Client) -> None:
    assert client.settings is not None
    connection = Connection(url=PLAIN.url, model=PLAIN.model, key=KEY, key_variable="TIELINE_KEY")
    assert (KEY in new_text(client.settings, connection)) == (client.id == "cline")
