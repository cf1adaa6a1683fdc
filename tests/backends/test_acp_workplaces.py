"""A conversation works in the folder and with the MCP servers that it selects by name, and nowhere else."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.backends.acp_support import Person, Talk, scripted, serving
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.rules import AgentAction, Ruling
from tieline.backends.acp.workplace import ToolServer
from tieline.model.errors import BadRequest
from tieline.model.request import Selection

DB = ToolServer(command=("db-mcp", "--read-only"), env={"DB": "main"})
DOCS = ToolServer(url="https://docs.example/mcp", headers={"x-key": "k"})
SERVERS = {"db": DB, "docs": DOCS}


def metadata(**values: Any) -> Mapping[str, msgspec.Raw]:
    return {"metadata": msgspec.Raw(json.dumps(values).encode())}


async def workplace(backend: AcpBackend, **request: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((await Talk(backend, **request).ask("workplace")).text)
    return told


async def test_a_conversation_works_where_it_selects_to_and_shares_a_process_only_there(tmp_path: Path) -> None:
    for name in ("usual", "site"):
        (tmp_path / name).mkdir()
    usual, site = str(tmp_path / "usual"), str(tmp_path / "site")
    async with serving(scripted("--can", "http"), cwd=usual, folders={"site": site}, servers=SERVERS) as backend:
        plain = await workplace(backend)
        assert (plain["cwd"], plain["process"], plain["servers"]) == (usual, usual, [])
        chosen = await workplace(backend, selection=Selection(folder="site", servers=("db", "docs")))
        assert (chosen["cwd"], chosen["process"]) == (site, site)
        db, docs = chosen["servers"]
        assert (db["name"], db["command"], db["args"]) == ("db", "db-mcp", ["--read-only"])
        assert [(one["name"], one["value"]) for one in db["env"]] == [("DB", "main")]
        assert (docs["type"], docs["name"], docs["url"]) == ("http", "docs", "https://docs.example/mcp")
        by_metadata = await workplace(backend, extra=metadata(tieline_folder="site", tieline_mcp="docs, db"))
        assert by_metadata["pid"] == chosen["pid"], "the same workplace"
        others = [await workplace(backend, selection=Selection(folder="site")), plain]
        assert chosen["pid"] not in [one["pid"] for one in others]


@pytest.mark.parametrize(
    ("asked", "param", "message"),
    [
        ({"selection": Selection(folder="/etc")}, "tieline_folder", "There is no folder `/etc`. Configured: a, b."),
        ({"extra": metadata(tieline_folder="c")}, "tieline_folder", "There is no folder `c`. Configured: a, b."),
        (
            {"selection": Selection(servers=("db", "/bin/sh"))},
            "tieline_mcp",
            "There is no MCP server `/bin/sh`. Configured: db, docs.",
        ),
        ({"extra": metadata(tieline_mcp=7)}, "metadata.tieline_mcp", "must be names of MCP servers"),
        ({"extra": metadata(tieline_folder=[])}, "metadata.tieline_folder", "must be the name of a folder"),
        ({"selection": Selection(servers=("docs",))}, "tieline_mcp", "does not support MCP servers over HTTP"),
    ],
)
async def test_what_is_not_configured_is_an_error_with_the_names_that_are(
    asked: dict[str, Any], param: str, message: str, tmp_path: Path
) -> None:
    folders = {"a": str(tmp_path), "b": str(tmp_path)}
    async with serving(scripted(), folders=folders, servers=SERVERS) as backend:
        with pytest.raises(BadRequest) as error:
            await Talk(backend, **asked).ask("say hello")
    assert error.value.param == param
    assert message in error.value.message


async def test_the_same_words_in_another_folder_are_another_conversation(tmp_path: Path) -> None:
    async with serving(scripted(), folders={"site": str(tmp_path)}) as backend:
        talk = Talk(backend)
        await talk.ask("say hello")
        talk.request = {"selection": Selection(folder="site")}
        prompts = json.loads((await talk.ask("recall")).text)
        assert len(prompts) == 1, "a new session, which is told what was said before"
        assert "say hello" in prompts[0]
        assert len(json.loads((await talk.ask("recall")).text)) == 2, "the same session"


class Overhears:
    """Rules that write down what they judge."""

    def __init__(self) -> None:
        self.judged: list[AgentAction] = []

    async def judge(self, deed: AgentAction) -> Ruling:
        self.judged.append(deed)
        return Ruling("allow")


async def test_paths_of_an_agent_in_another_folder_are_judged_from_there(tmp_path: Path) -> None:
    rules = Overhears()
    async with serving(scripted(), folders={"site": str(tmp_path)}, rules=rules) as backend:
        await Talk(backend, selection=Selection(folder="site")).ask("peek src/a.py", Person())
        await Talk(backend).ask("peek src/a.py", Person())
    assert [(deed.paths, deed.folder) for deed in rules.judged] == [
        ((f"{tmp_path}/src/a.py",), f"{tmp_path}/"),
        (("src/a.py",), ""),
    ]
