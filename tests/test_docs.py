"""The documents agree with the program: settings, links, paths, packages and import rules."""

import re
import tomllib
from pathlib import Path

import msgspec

from tests.each import each
from tieline.app.config import (
    AcpSettings,
    AgentSettings,
    ClientSettings,
    ClusterSettings,
    Config,
    CursorSettings,
    InboxSettings,
    KeySettings,
    McpSettings,
    ModelSettings,
    ParkingSettings,
    PriceSettings,
    ResponsesSettings,
    ServerSettings,
    StoreSettings,
    ToolSettings,
    UpstreamSettings,
    UsageSettings,
    WebSettings,
)
from tieline.model.rules import Rule
from tieline.tools import planning
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace
from tieline.wire import anthropic, openai_chat, openai_responses

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tieline"
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]

PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "docs/*", "bench")
    for page in ROOT.glob(f"{folder}/*.md")
)
FOR_DEVELOPERS = [
    page for page in PAGES if page.startswith(("ARCHITECTURE", "CONTRIBUTING", "docs/adr/", "docs/how-to/"))
]
FOLDERS = "model|wire|net|backends|tools|core|frontends|web|sim|app|cli|demo|tests|docs|bench|proto|requirements|src"


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


SETTINGS = [
    (kind.__name__, name)
    for kind in (
        ServerSettings,
        UpstreamSettings,
        ClientSettings,
        KeySettings,
        ModelSettings,
        CursorSettings,
        ParkingSettings,
        InboxSettings,
        ToolSettings,
        AcpSettings,
        AgentSettings,
        McpSettings,
        ResponsesSettings,
        StoreSettings,
        PriceSettings,
        UsageSettings,
        WebSettings,
        ClusterSettings,
        Rule,
        anthropic.Dialect,
        openai_chat.Dialect,
        openai_responses.Dialect,
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


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^):\s]+)\)", text_of(page))]
    assert ("ARCHITECTURE.md", "docs/adr/0001-neutral-model.md") in links
    assert [link for link in links if not is_good_link(*link)] == []


def is_good_link(page: str, link: str) -> bool:
    """Return whether the linked file exists, and has the heading if the link names one."""
    target, _, heading = link.partition("#")
    path = ROOT / page
    linked = path.parent / target if target else path
    return linked.exists() and (not heading or heading in headings(linked.read_text("utf-8")))


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_paths_in_documents_for_developers_exist() -> None:
    """Paths below src/tieline are written without that prefix. Documents for users have names of models instead."""
    written = re.compile(rf"`((?:{FOLDERS})/[\w/.*-]*|[\w.]+\.(?:md|toml))`")
    paths = [(page, path) for page in FOR_DEVELOPERS for path in written.findall(text_of(page))]
    assert ("ARCHITECTURE.md", "core/legs/gateway.py") in paths
    assert ("CONTRIBUTING.md", "CHANGELOG.md") in paths
    assert [path for path in paths if not any(ROOT.glob(path[1])) and not any(SOURCE.glob(path[1]))] == []


def test_a_decision_record_has_its_sections() -> None:
    records = [page for page in PAGES if "/adr/" in page]
    assert [int(page.split("/")[-1][:4]) for page in records] == list(range(1, len(records) + 1))
    for number, page in enumerate(records, 1):
        text = text_of(page)
        assert text.startswith(f"# {number}. ")
        sections = re.findall(r"^\*\*(\w+)\.\*\* ", text, re.MULTILINE)
        assert [name for name in sections if name != "Status"] == ["Context", "Decision", "Consequences"], page


# ── ARCHITECTURE.md ──────────────────────────────────────────────────────────────────────────────


def test_the_architecture_fits_on_two_pages() -> None:
    lines = ARCHITECTURE.splitlines()
    assert len(lines) <= 140
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


def test_the_tree_of_the_architecture_has_every_package() -> None:
    tree = re.search(r"^src/tieline/\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert tree is not None
    named: set[str] = set()
    parent = ""
    for line in tree[1].splitlines():
        first, *below = re.findall(r"\b(\w+)/(?= )", line)
        folder = first if line[2] != " " else f"{parent}/{first}"
        parent = folder if line[2] != " " else parent
        named |= {folder, *(f"{folder}/{name}" for name in below)}
    assert named == {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")} - {"."}


def test_the_architecture_has_the_layers_of_the_contracts() -> None:
    layers = {contract["containers"][0]: contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"}
    del layers["tieline.app"]  # its modules are not packages
    written = re.findall(r"^(\w+): +(.* / .*(?:\n +/ .*)*)$", ARCHITECTURE, re.MULTILINE)
    named = {
        f"tieline.{name}".replace("tieline.tieline", "tieline"): re.split(r"\s+/ ", lines) for name, lines in written
    }
    assert named == layers


def test_the_architecture_has_the_prohibitions_of_the_contracts() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`\w+`(?:, )?)+)( directly)? \|$", ARCHITECTURE, re.MULTILINE)
    names = re.compile(r"`(\w+)`").findall
    written = [(names(source), names(forbidden), bool(direct)) for source, forbidden, direct in rows]
    enforced = [
        (
            [name.removeprefix("tieline.") for name in contract["source_modules"]],
            [name.removeprefix("tieline.") for name in contract["forbidden_modules"]],
            contract.get("allow_indirect_imports", False),
        )
        for contract in CONTRACTS
        if contract["type"] == "forbidden"
    ]
    assert written == enforced


def test_the_glossary_is_short() -> None:
    rows = re.findall(r"^\| \*\*", ARCHITECTURE, re.MULTILINE)
    assert 15 <= len(rows) <= 25


# ── Settings and tools ───────────────────────────────────────────────────────────────────────────


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
