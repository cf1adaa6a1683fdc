"""Tests of a gateway that cannot read the stored keys, or their usage, when it starts."""

from pathlib import Path

import pytest

from tieline.app.build.storage import FILE_NAME, Storage
from tieline.app.build.usage import build_usage
from tieline.app.config import Config, KeyRules, StoreSettings
from tieline.app.database.sqlite import SqliteDatabase
from tieline.app.folders import state_folder
from tieline.app.keys.table import KeyTable
from tieline.tasks import Tasks

KEYS = "the stored keys could not be read at start-up (the database cannot be used); "
USAGE = "the usage so far could not be read at start-up ("


@pytest.mark.parametrize(("missing", "logged"), [("api_key", KEYS), ("usage_total", USAGE)])
async def test_a_warning_says_what_could_not_be_read(
    missing: str, logged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = {"HOME": str(tmp_path)}
    folder = state_folder(env)
    assert folder is not None
    database = SqliteDatabase(folder / FILE_NAME)
    await KeyTable(database, lambda: 0.0).create("ann", KeyRules(tokens_per_day=1000))
    await database.execute(f"DROP TABLE {missing}")
    await database.aclose()
    tasks, storage = Tasks(), Storage(StoreSettings(), env)
    parts = build_usage(Config(), env, storage, tasks, ["own-key"], (), ())
    with caplog.at_level("WARNING", logger="tieline"):
        await parts.start()
    warnings = [message for message in caplog.messages if "at start-up" in message]
    assert [message[: len(logged)] for message in warnings] == [logged]
    await tasks.aclose()
    await parts.aclose()
    await storage.aclose()
