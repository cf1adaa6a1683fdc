"""Folders and MCP servers of a coding agent, selected by name in a request of either dialect."""

import json
import time
from pathlib import Path

import anthropic
import openai
import pytest

from tests.e2e.acp_support import Dialect, serving
from tests.e2e.tools_support import DIALECTS
from tieline.app.audit import AuditLog
from tieline.app.build.acp import acp_backend
from tieline.app.build.storage import Storage
from tieline.app.config import AcpSettings, Config, ConfigError, McpSettings, StoreSettings
from tieline.app.ids import Ids

DB = McpSettings(command=("db-mcp",))


@DIALECTS
async def test_headers_and_metadata_select_by_name_and_unknown_names_are_a_400(
    tmp_path: Path, dialect: Dialect
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    async with serving(tmp_path, folders={"site": str(site)}, mcp={"db": DB}) as stand:
        headers = {"x-tieline-folder": "site", "x-tieline-mcp": "db"}
        told = json.loads((await stand.talk(dialect, extra_headers=headers).say("workplace")).text)
        assert (told["cwd"], [server["name"] for server in told["servers"]]) == (str(site), ["db"])
        body = {"metadata": {"tieline_folder": "site"}}
        told = json.loads((await stand.talk(dialect, extra_body=body).say("workplace")).text)
        assert (told["cwd"], told["servers"]) == (str(site), [])
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="Configured: site"):
            await stand.talk(dialect, extra_headers={"x-tieline-folder": str(site)}).say("workplace")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (AcpSettings(folders={"site": "/nowhere/at/all"}), r"acp\.folders\.site.* is not a folder"),
        (AcpSettings(mcp={"db": McpSettings()}), r"acp\.mcp\.db` needs either a `command` or a `url`"),
        (AcpSettings(mcp={"db": McpSettings(command=("a",), url="http://b")}), "needs either"),
        (AcpSettings(mcp={"tieline": DB}), "this name is reserved"),
    ],
)
def test_what_cannot_be_selected_is_an_error_of_the_configuration(settings: AcpSettings, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        acp_backend(
            Config(acp=settings),
            {},
            Ids(),
            audit=AuditLog(None, clock=time.time),
            storage=Storage(StoreSettings(), {}),
        )
