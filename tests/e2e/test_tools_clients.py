"""Who receives the gateway's tools: the page always, other clients only where the configuration says so."""

from pathlib import Path

import httpx2
import pytest

from tests.e2e.tools_support import DEMO, DIALECTS, KEY, TELL, Dialect, Stand, call, script, serving
from tieline.app.build.application import build
from tieline.app.config import ClientSettings, Config, ConfigError, KeySettings

READING = script(call("read_file", path="a.txt"), TELL)
NAMED = {"robot": KeySettings(key_env="ROBOT_KEY", tools=True), "plain": KeySettings(key_env="PLAIN_KEY")}
VALUES = {"ROBOT_KEY": "robot-secret", "PLAIN_KEY": "plain-secret"}


async def said(stand: Stand, key: str, user_agent: str = "test") -> str:
    """What a client with this key and name gets told."""
    body = {"model": DEMO, "messages": [{"role": "user", "content": READING}]}
    headers = {"x-api-key": key, "user-agent": user_agent}
    response = await stand.http.post("/v1/chat/completions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"] or ""


@DIALECTS
async def test_a_client_that_nothing_is_said_of_receives_no_tools(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path, clients={}) as stand:
        (stand.root / "a.txt").write_text("the content\n")
        assert "the content" not in (await stand.tell(dialect, READING)).text


async def test_the_profile_of_a_client_gives_it_tools(tmp_path: Path) -> None:
    clients = {"script": ClientSettings(user_agent="my-script/*", tools=True)}
    async with serving(tmp_path, clients=clients) as stand:
        (stand.root / "a.txt").write_text("the content\n")
        assert "the content" in await said(stand, KEY, "my-script/1")
        assert "the content" not in await said(stand, KEY, "other/1")


async def test_a_profile_bound_to_a_key_that_is_not_set_fits_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path, clients={"script": ClientSettings(key_env="NOT_SET", tools=True)}) as stand:
        (stand.root / "a.txt").write_text("the content\n")
        assert "the content" not in await said(stand, KEY)


async def test_white_space_around_the_gateways_own_key_is_ignored(tmp_path: Path) -> None:
    clients = {"script": ClientSettings(key_env="TIELINE_KEY", tools=True)}
    async with serving(tmp_path, clients=clients, env={"TIELINE_KEY": f"{KEY}\n"}) as stand:
        (stand.root / "a.txt").write_text("the content\n")
        assert "the content" in await said(stand, KEY)


@pytest.mark.parametrize("variable", ["TIELINE_KEY", "SCRIPT_KEY"])
def test_a_key_that_no_client_can_send_is_refused_at_the_start(variable: str) -> None:
    clients = {"script": ClientSettings(key_env="SCRIPT_KEY")}
    with pytest.raises(ConfigError, match=f"{variable} does not contain a valid key"):
        build(Config(clients=clients), {variable: "two\nlines"})


async def test_a_named_key_gives_tools_if_it_says_so_and_a_profile_can_take_them_back(tmp_path: Path) -> None:
    clients = {"no": ClientSettings(user_agent="careful/*", tools=False)}
    async with serving(tmp_path, clients=clients, keys=NAMED, env=VALUES) as stand:
        (stand.root / "a.txt").write_text("the content\n")
        assert "the content" in await said(stand, "robot-secret")
        assert "the content" not in await said(stand, "plain-secret")
        assert "the content" not in await said(stand, KEY)
        assert "the content" not in await said(stand, "robot-secret", "careful/1")


async def test_a_named_key_opens_models_and_nothing_a_person_decides_with(tmp_path: Path) -> None:
    async with serving(tmp_path, keys=NAMED, env=VALUES) as stand:

        async def status(path: str, key: str) -> int:
            response: httpx2.Response = await stand.http.get(path, headers={"x-api-key": key})
            return response.status_code

        assert await status("/v1/models", "robot-secret") == 200
        assert await status("/v1/models", "wrong") == 401
        for path in ("/api/inbox", "/api/rules", "/api/state", "/metrics"):
            assert await status(path, "robot-secret") == 401, path
            assert await status(path, KEY) == 200, path


@pytest.mark.parametrize(
    ("keys", "env", "said"),
    [
        ({"a": KeySettings(key_env="A_KEY")}, {"A_KEY": "x"}, "also needs the gateway's own key"),
        ({"a": KeySettings(key_env="A_KEY")}, {"TIELINE_KEY": "k"}, "A_KEY, but this variable is not set"),
        ({"a": KeySettings(key_env="A_KEY")}, {"TIELINE_KEY": "k", "A_KEY": "k"}, "same key as another"),
        (
            {"a": KeySettings(key_env="A_KEY"), "b": KeySettings(key_env="B_KEY")},
            {"TIELINE_KEY": "k", "A_KEY": "x", "B_KEY": "x"},
            "`keys.b` is the same key",
        ),
    ],
)
def test_keys_that_cannot_tell_clients_apart_are_refused_at_the_start(
    keys: dict[str, KeySettings], env: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        build(Config(keys=keys), env)
