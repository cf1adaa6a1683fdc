"""The texts of grants, as a person reads them."""

import pytest

from tieline.model.rules import Rule
from tieline.tools.grant_text import grant_label, grant_summary


def run(command: str, *, path: str | None = None, exact: bool = False) -> Rule:
    return Rule(decision="allow", tool="run_terminal", path=path, command=command, exact=exact)


LABELS = [
    (Rule(decision="allow", tool="edit_file", path="**"), "Always allow editing any file in this folder"),
    (Rule(decision="allow", tool="write_file", path="/docs/"), "Always allow writing any file in docs"),
    (Rule(decision="allow", tool="edit_file", path=r"/a\*b.py"), "Always allow editing a*b.py"),
    (Rule(decision="allow", tool="list_directory", path="/."), "Always allow listing this folder"),
    (Rule(decision="allow", tool="list_directory", path="**"), "Always allow listing any folder in this folder"),
    (Rule(decision="allow", tool="search_files", path="**"), "Always allow finding files anywhere in this folder"),
    (Rule(decision="allow", tool="search_content", path="/docs/"), "Always allow searching any file in docs"),
    (run("git log"), "Always allow running “git log” with any read-only arguments"),
    (run("git log", path="/."), "Always allow running “git log” in this folder with any read-only arguments"),
    (run("make; ls", path="/.", exact=True), "Always allow running “make; ls” in this folder"),
    (run("ls", path="/sub", exact=True), "Always allow running “ls” in sub"),
    (Rule(decision="allow", tool="other_tool"), "Always allow using other_tool"),
    (Rule(decision="allow", tool="other_tool", path="/a"), "Always allow using other_tool on a"),
]


@pytest.mark.parametrize(("rule", "label"), LABELS)
def test_a_grant_is_a_sentence(rule: Rule, label: str) -> None:
    assert grant_label(rule) == label


def test_a_list_shows_what_a_grant_allows() -> None:
    assert grant_summary(run("ls", path="/sub", exact=True)) == "Running “ls” in sub"
