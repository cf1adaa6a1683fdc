"""What the documents say of settings is what there is."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.each import each
from tieline.app.config import (
    AcpSettings,
    AgentSettings,
    ClientSettings,
    Config,
    CursorSettings,
    InboxSettings,
    McpSettings,
    ParkingSettings,
    ServerSettings,
    ToolSettings,
    UpstreamSettings,
    WebSettings,
)
from tieline.model.rules import Rule
from tieline.tools import planning
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace
from tieline.wire import anthropic, openai_chat

ROOT = Path(__file__).parents[1]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")

SETTINGS = [
    (kind.__name__, name)
    for kind in (
        ServerSettings,
        UpstreamSettings,
        ClientSettings,
        CursorSettings,
        ParkingSettings,
        InboxSettings,
        ToolSettings,
        AcpSettings,
        AgentSettings,
        McpSettings,
        WebSettings,
        Rule,
        anthropic.Dialect,
        openai_chat.Dialect,
    )
    for name in kind.__struct_fields__
] + [("Config", name) for name in ("default_model", "arguments", "activity", "demo", "log")]


@each(("kind", "name"), SETTINGS)
def test_every_setting_is_in_the_documents(kind: str, name: str) -> None:
    assert f"`{name}`" in CONFIGURATION, f"{kind}.{name}"


def test_the_documents_name_no_setting_that_does_not_exist() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", CONFIGURATION, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    repairs = {"text_calls", "coerce", "keys", "json", "unknown", "repeat"}
    known = {name for _, name in SETTINGS} | set(Config.__struct_fields__) | repairs
    assert named <= known


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_and_paths_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    if page == "ARCHITECTURE.md":
        for path in re.findall(r"`((?:model|wire|net|backends|core|frontends|sim)/[\w/.]*)`", text):
            assert (ROOT / "src" / "tieline" / path).exists(), path


@each("setting", ToolSettings().environment)
def test_every_variable_that_commands_see_is_in_the_documents(setting: str) -> None:
    assert f"`{setting}`" in CONFIGURATION


def test_the_rules_of_the_documents_are_valid() -> None:
    found = re.search(r"```toml\n(\[tools\].*?)```", CONFIGURATION, re.DOTALL)
    assert found is not None
    assert len(msgspec.toml.decode(found[1], type=Config).tools.rules) == 2


def test_every_tool_is_in_the_documents(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    for spec in (*WorkspaceToolbox(Workspace(tmp_path), environment={}).specs, *planning.SPECS):
        assert f"`{spec.name}`" in page


def test_the_configuration_of_the_readme_is_valid() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    assert msgspec.toml.decode(found[1], type=Config).upstreams["local"].kind == "openai"
