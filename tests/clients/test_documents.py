"""The documents have the settings that the page and the commands show."""

import json
import re
import tomllib
from pathlib import Path

from tests.each import each
from tieline.clients.catalogue import CLIENTS, UNSUPPORTED
from tieline.clients.client import Connection
from tieline.clients.snippet import Snippet
from tieline.clients.snippets import snippets

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text("utf-8")
SHOWN = snippets(Connection(url="http://127.0.0.1:18741", model="demo/scripted"))
HEADINGS = {
    "openai-python": "OpenAI SDKs",
    "anthropic-python": "Anthropic SDKs",
}
ELSEWHERE = {"cursor", "curl"}


def documented(heading: str, language: str) -> str:
    """The first block of a language under a heading of the documents."""
    section = re.split(r"^##", PAGE.partition(f"### {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None, heading
    return found[1].strip()


@each("snippet", [one for one in SHOWN if one.id not in ELSEWHERE], ids=lambda snippet: snippet.id)
def test_settings_are_as_in_the_documents(snippet: Snippet) -> None:
    text = documented(HEADINGS.get(snippet.id, snippet.title), snippet.language)
    if snippet.language == "json":
        assert json.loads(text) == json.loads(snippet.text)
    elif snippet.language in ("python", "js"):
        # The documents show other ways as well.
        assert words(snippet.text) <= words(text)
    else:
        assert text == snippet.text


def words(program: str) -> set[str]:
    return set(re.findall(r"[\w./:-]+", program))


def test_every_client_is_in_the_table() -> None:
    rows = re.findall(r"^\| ([^|]+) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == [(client.title, client.id) for client in CLIENTS.values()]
    assert {one.command for one in SHOWN} - {""} == {f"tieline run {name}" for name in CLIENTS}
    assert list(UNSUPPORTED) == ["gemini"]


def test_settings_are_what_they_say_they_are_written_in() -> None:
    odd = Connection(url="http://[::1]:1", model='odd/"model')
    for one in snippets(odd):
        if one.language == "json":
            json.loads(one.text)
        elif one.language == "toml":
            assert tomllib.loads(one.text)["model"] == 'odd/"model'
        elif one.language == "python":
            compile(one.text, one.id, "exec")
