"""Changes of files as text, in the formats that aider 0.86 asks for."""

import pytest

from tests.cases import says
from tieline.demo.decision import decide
from tieline.demo.reply_steps import Say
from tieline.model.request import Request

PROMPTS = {
    "whole": ("To suggest changes you MUST return a *file listing*.", ""),
    "diff": ("All changes to files must use this *SEARCH/REPLACE block* format.", "# *SEARCH/REPLACE block* Rules:"),
    "udiff": (
        "Write out the changes similar to a unified diff like `diff -U0` would produce.",
        "# File editing rules:",
    ),
    "architect": ("Act as an expert architect engineer and provide direction to your editor engineer.", ""),
}
SHOWN = "I have *added these files to the chat*.\n\na.txt\n```\none two\nthree\n```\n"
LONG = "\n\nEvery block, and then every other one, must use this format. Do so.\n" * 40


def answer(form: str, words: str) -> str:
    system, rules = PROMPTS[form]
    asked = f"{words}\n\n{rules}\n{LONG}" if rules else words
    messages = (says("system", system), says("user", SHOWN), says("assistant", "Ok."), says("user", asked))
    steps = decide(Request(model="m", messages=messages)).steps
    return "".join(step.text for step in steps if isinstance(step, Say))


WRITTEN = {
    "whole": "new.txt\n```\nhello\n```",
    "diff": "new.txt\n```\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n```",
    "udiff": "```diff\n--- /dev/null\n+++ new.txt\n@@ ... @@\n+hello\n```",
}
EDITED = {
    "whole": "a.txt\n```\none TWO\nthree\n```",
    "diff": "a.txt\n```\n<<<<<<< SEARCH\none two\n=======\none TWO\n>>>>>>> REPLACE\n```",
    "udiff": "```diff\n--- a.txt\n+++ a.txt\n@@ ... @@\n-one two\n+one TWO\n```",
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_new_file_is_written_in_the_format_of_the_client(form: str) -> None:
    assert answer(form, "write hello to new.txt") == WRITTEN[form]


@pytest.mark.parametrize("form", EDITED)
def test_a_change_replaces_whole_lines_of_what_was_shown(form: str) -> None:
    assert answer(form, "edit a.txt: replace two with TWO") == EDITED[form]


@pytest.mark.parametrize("form", ["whole", "diff", "udiff"])
@pytest.mark.parametrize("words", ["write hello to new.txt", "edit a.txt: replace two with TWO"])
def test_an_architect_gives_directions_that_the_editor_understands(form: str, words: str) -> None:
    assert answer(form, answer("architect", words)) == answer(form, words)
