"""What "always" would mean, as a person reads it."""

import pytest

from tieline.model.rules import Rule
from tieline.tools.grant_text import grant_words


def run(command: str, *, path: str | None = None, exact: bool = False) -> Rule:
    return Rule(decision="allow", tool="run_terminal", path=path, command=command, exact=exact)


WORDS = [
    (Rule(decision="allow", tool="edit_file", path="**"), "Always allow editing any file in this folder"),
    (Rule(decision="allow", tool="write_file", path="/docs/"), "Always allow writing any file in docs/"),
    (Rule(decision="allow", tool="edit_file", path=r"/a\*b.py"), "Always allow editing a*b.py"),
    (run("git status"), "Always allow running any command that begins with git status"),
    (run("make; ls", path=".", exact=True), "Always allow running exactly make; ls"),
    (run("ls", path="/sub", exact=True), "Always allow running exactly ls in sub"),
    (Rule(decision="allow", tool="other_tool"), "Always allow using other_tool"),
]


@pytest.mark.parametrize(("rule", "words"), WORDS)
def test_a_grant_is_a_sentence(rule: Rule, words: str) -> None:
    assert grant_words(rule) == words
