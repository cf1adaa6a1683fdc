"""Printed settings are commands that a shell can run."""

import shutil
import subprocess

from tests.each import each
from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import Client, Connection
from tieline.clients.shell import FOLDER, KEY, quoted, script


@each("text", ["", "plain", "two words", "it's", '"$HOME" `id` \\', "a\nb", "<key>", "ü", "-x"])
def test_a_quoted_text_is_one_word_with_that_value(text: str) -> None:
    assert shell(f"printf %s {quoted(text)}") == text


def test_an_expression_in_a_text_is_evaluated_and_nothing_else() -> None:
    line = quoted(f"it's $HOME {KEY} x", {KEY: "$THE_KEY"})
    assert shell(f"THE_KEY='a  b'; printf %s {line}") == "it's $HOME a  b x"


@each("client", list(CLIENTS.values()), ids=lambda client: client.id)
def test_a_script_sets_what_the_recipe_says(client: Client) -> None:
    connection = Connection(url="http://127.0.0.1:1", model="up/a model", key=KEY)
    recipe = client.launch(connection, FOLDER)
    lines = script(recipe, [client.programs[0], "an argument"], "$THE_KEY")
    shown = "\n".join(f'printf "%s\\n" "${name}"' for name in recipe.env)
    files = "\n".join(f'cat "$TIELINE_FOLDER"/{path}; echo' for path in recipe.files)
    output = shell(f'TIELINE_FOLDER=/nowhere THE_KEY=secret\n{lines}\n{shown}\n{files}\nprintf %s "$TIELINE_FOLDER"')
    values, _, folder = output.rpartition("\n")
    if folder != "/nowhere":
        shutil.rmtree(folder)
    expected = "\n".join([*recipe.env.values(), *recipe.files.values()])
    assert values == expected.replace(KEY, "secret").replace(FOLDER, folder)
    assert lines.splitlines()[-1].startswith("# ")
    assert lines.splitlines()[-1].endswith("'an argument'")


def shell(commands: str) -> str:
    command = ["/bin/sh", "-euc", commands]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout  # noqa: S603 - our own script
