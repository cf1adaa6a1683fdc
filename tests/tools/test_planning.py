"""Plans, questions and modes, as calls say them."""

from typing import Any

import pytest

from tests.each import each
from tests.tools.calling import call
from tieline.tools import planning
from tieline.tools.arguments import BadArguments
from tieline.tools.planning import AskQuestion, CreatePlan, QuestionOption, SwitchMode
from tieline.tools.todos import TodoItem

GOOD = [
    (
        call("create_plan", title="Tidy", plan="# Steps", todos=[{"id": "1", "content": "look"}]),
        CreatePlan(title="Tidy", plan="# Steps", todos=(TodoItem(id="1", content="look"),)),
    ),
    (call("ask_question", question="Go on?", kind="yes_no"), AskQuestion(question="Go on?", kind="yes_no")),
    (call("ask_question", question="Which name?"), AskQuestion(question="Which name?", kind="text")),
    (
        call("ask_question", question="Which?", kind="choice", options=[{"label": "a"}, {"label": "b"}], multiple=True),
        AskQuestion(
            question="Which?",
            kind="choice",
            options=(QuestionOption(label="a"), QuestionOption(label="b")),
            multiple=True,
        ),
    ),
    (
        call("ask_question", question="How many?", kind="number", minimum=0, maximum=2.5),
        AskQuestion(question="How many?", kind="number", minimum=0, maximum=2.5),
    ),
    (call("ask_question", question="Which file?", kind="file"), AskQuestion(question="Which file?", kind="file")),
    (call("switch_mode", mode="plan", reason="it is large"), SwitchMode(mode="plan", reason="it is large")),
]
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("create_plan", {"title": "x"}, "`plan` is missing"),
    ("create_plan", {"title": "x", "plan": "y", "todos": [{"id": "1", "content": "a"}] * 2}, "more than once: 1"),
    ("ask_question", {}, "`question` is missing"),
    ("ask_question", {"question": "x", "kind": "maybe"}, "`choice`, `file`, `number`, `text`, `yes_no`"),
    ("ask_question", {"question": "x", "kind": "choice", "options": [{"label": "a"}]}, "at least two"),
    ("ask_question", {"question": "x", "kind": "choice", "options": [{"label": "a"}] * 2}, "more than once: a"),
    ("ask_question", {"question": "x", "options": [{"label": "a"}]}, "belong to kind `choice`"),
    ("ask_question", {"question": "x", "kind": "text", "minimum": 1}, "belong to kind `number`"),
    ("ask_question", {"question": "x", "kind": "number", "minimum": 2, "maximum": 1}, "no answer"),
    ("switch_mode", {"mode": "sleep"}, "`agent`, `chat`, `plan`"),
    ("read_file", {"path": "x"}, "not a planning tool"),
]


@pytest.mark.parametrize(("made", "said"), GOOD)
def test_a_call_is_read(made: Any, said: Any) -> None:
    assert planning.parse(made) == said
    assert planning.owns(made.name)


@each(("name", "arguments", "said"), BAD)
def test_a_call_that_makes_no_sense_is_refused(name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadArguments, match=said):
        planning.parse(call(name, **arguments))
