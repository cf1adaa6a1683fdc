"""Where data is kept: in files by default, on a server if one is configured, and what is wrong with its settings."""

import importlib.util
from pathlib import Path

import pytest

from tieline.app.build.application import build
from tieline.app.build.storage import DRIVER, Storage
from tieline.app.config import Config, ConfigError, KeySettings, StoreSettings, key_variables
from tieline.app.config_file import ConfigFile, load_config

URL = "postgresql://gateway:top-secret@db.example/tieline"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'[store]\nurl = "{URL}"\nurl_env = "DB"', "`store` has `url` and `url_env`: expected only one of them"),
        ('[store]\nurl = "mysql://gateway:top-secret@db"', "`store.url`: expected postgresql://user@host/database"),
        ("[store]\nconnections = 0", "`store.connections`"),
        ('[store]\nurls = "x"', "do you mean `url`"),
    ],
)
def test_a_wrong_setting_is_named_without_the_password(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(ConfigFile(Path("tieline.toml"), text.encode()), {})
    assert reason in str(caught.value)
    assert "top-secret" not in str(caught.value)


def test_a_missing_variable_or_a_url_that_cannot_be_parsed_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"`store\.url_env` is DB, but this variable is not set"):
        build(Config(store=StoreSettings(url_env="DB")), {})
    with pytest.raises(ConfigError, match=r"`store\.url`: not a valid PostgreSQL URL") as caught:
        build(Config(store=StoreSettings(url_env="DB")), {"DB": "postgresql://u:top-secret@[h/d"})
    assert "top-secret" not in str(caught.value)


def test_a_missing_driver_stops_the_start_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("tieline.app.build.storage.find_spec", lambda name: None if name == DRIVER else find(name))
    with pytest.raises(ConfigError, match=r"pip install 'tieline\[postgres\]'"):
        Storage(StoreSettings(url=URL), {})


def test_the_password_is_a_known_secret_and_no_command_receives_it(tmp_path: Path) -> None:
    config = Config(store=StoreSettings(url_env="DB"), keys={"laptop": KeySettings(key_env="LAPTOP")})
    assert key_variables(config) >= {"DB", "PGPASSWORD", "LAPTOP"}
    assert "PGPASSWORD" not in key_variables(Config())
    url = URL.replace("top-secret", "top%2Fsecret")
    app = build(Config(store=StoreSettings(url_env="DB")), {"DB": url, "HOME": str(tmp_path)})
    assert app.gateway.bus.hide(f"{url} and top/secret or top%2Fsecret").count("secret") == 0


async def test_without_a_server_data_is_in_the_files_of_earlier_releases(tmp_path: Path) -> None:
    storage = Storage(StoreSettings(), {"HOME": str(tmp_path)})
    assert not storage.is_shared
    for store in (storage.store(), storage.separate_store("responses"), storage.separate_store("agents")):
        await store.write("shelf", "a", b"1")
        await store.aclose()
    await storage.aclose()
    state = tmp_path / ".local/state/tieline"
    names = {path.relative_to(state).as_posix() for path in state.rglob("*.sqlite3")}
    assert names == {"sessions.sqlite3", "responses/sessions.sqlite3", "agents/sessions.sqlite3"}


async def test_without_a_state_folder_data_is_in_memory() -> None:
    storage = Storage(StoreSettings(), {})
    assert not storage.is_persistent
    for store in (storage.store(), storage.separate_store("responses")):
        await store.write("shelf", "a", b"1")
        assert await store.read("shelf") == {"a": b"1"}
        await store.aclose()
    await storage.aclose()
