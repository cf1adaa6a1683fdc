"""The script behind `make test-clients`: its table, and that the documents show the versions that it installs."""

from pathlib import Path

from tests.real_clients import ROOT, SOURCES, Installed, check, table
from tieline.clients.catalogue import CLIENTS

REQUIRED = {"claude", "codex", "opencode", "aider", "qwen", "goose", "cline", "continue", "pi", "kilo", "llm"}


def test_it_runs_known_clients_and_all_that_must_work() -> None:
    assert REQUIRED <= set(SOURCES) <= set(CLIENTS)


def test_the_documents_list_each_client() -> None:
    page = (ROOT / "docs" / "clients.md").read_text("utf-8")
    rows = page.partition("`make test-clients`")[2].splitlines()
    assert [name for name in SOURCES if not any(row.startswith(f"| {CLIENTS[name].title} |") for row in rows)] == []


def test_a_table_shows_what_passed_and_what_did_not() -> None:
    passed = {"client": "pi", "version": "1.2", "problem": "", "requests": 4, "calls": ["read", "write"], "duration": 1}
    missing = check("llm", Installed(None, "cannot be installed: no network"))
    assert table([passed, missing]).splitlines()[2:] == [
        "| pi | 1.2 | chat | passed | 4 | `read`, `write` | 1.0 |",
        "| llm | ? | chat | failed: cannot be installed: no network | 0 | – | 0.0 |",
    ]


def test_a_client_that_is_not_in_its_folder_fails(tmp_path: Path) -> None:
    report = check("droid", Installed(tmp_path))
    assert report["problem"] == "it is not installed"
