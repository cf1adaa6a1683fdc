"""Questions of the inbox at the terminal: what is asked, what counts as an answer, and what does not."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console, RenderableType

from tieline.cli.chat.line_editor import Submitted
from tieline.cli.chat.prompts import ItemPrompt
from tieline.model.inbox import (
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    InboxItem,
    Option,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)

COLOURS = (Option(id="r", label="Red"), Option(id="b", label="Blue"))
RUN = Approval(title="Run", command="make", input='{"command": "make"}')
PLAN = PlanReview(title="Tidy")
VISIT = Question(message="Log in", url="https://x.example")
AGREE = Question(message="Delete the branch?")


class Person:
    """Types these lines, each a second after being asked."""

    def __init__(self, lines: Sequence[str], *, seconds: float = 1.0) -> None:
        self.seen = ""
        self.prompts: list[str] = []
        self._lines = list(lines)
        self._now = 0.0
        self._seconds = seconds

    async def read(self, prompt: str) -> Submitted | None:
        self.prompts.append(prompt)
        self._now += self._seconds
        return Submitted(self._lines.pop(0)) if self._lines else None

    def show(self, body: RenderableType) -> None:
        file = io.StringIO()
        Console(file=file, width=80, color_system=None).print(body)
        self.seen += file.getvalue()

    async def answer(self, content: InboxItem) -> Answer | None:
        return await ItemPrompt(self.read, self.show, lambda: self._now).ask(content)


def form(*fields: Field) -> Question:
    return Question(message="Which?", fields=fields)


@pytest.mark.parametrize(
    ("content", "lines", "answer"),
    [
        (RUN, ["y"], ApprovalAnswer(option="allow")),
        (RUN, ["a"], ApprovalAnswer(option="always")),
        (RUN, ["n not now"], ApprovalAnswer(option="deny", reason="not now")),
        (RUN, [""], ApprovalAnswer(option="deny")),
        (RUN, ["perhaps", "yes"], ApprovalAnswer(option="allow")),
        (RUN, ["always"], ApprovalAnswer(option="always")),
        (PLAN, ["y"], ReviewAnswer(approved=True)),
        (PLAN, [""], ReviewAnswer(approved=False)),
        (PLAN, ["n shorter"], ReviewAnswer(approved=False, feedback="shorter")),
        (form(Field(name="c", kind="choice", options=COLOURS)), ["2"], QuestionAnswer(values={"c": "b"})),
        (form(Field(name="c", kind="choice", options=COLOURS)), ["blue"], QuestionAnswer(values={"c": "b"})),
        (
            form(Field(name="c", kind="choice", options=COLOURS, many=True)),
            ["1, Blue"],
            QuestionAnswer(values={"c": ["r", "b"]}),
        ),
        (form(Field(name="s", kind="yes_no")), ["y"], QuestionAnswer(values={"s": True})),
        (form(Field(name="n", kind="number")), ["many", "3"], QuestionAnswer(values={"n": 3})),
        (form(Field(name="t"), Field(name="u")), ["one", "two"], QuestionAnswer(values={"t": "one", "u": "two"})),
        (form(Field(name="t"), Field(name="u")), ["", "two"], QuestionAnswer(values={"u": "two"})),
        (form(Field(name="t", required=True)), ["", "x"], QuestionAnswer(values={"t": "x"})),
        (form(Field(name="t", default="d")), [""], QuestionAnswer(values={"t": "d"})),
        (form(Field(name="t")), ["/decline"], QuestionAnswer(action="decline")),
        (VISIT, [""], QuestionAnswer()),
        (VISIT, ["perhaps", "y"], QuestionAnswer()),
        (VISIT, ["/decline"], QuestionAnswer(action="decline")),
        (VISIT, ["no"], QuestionAnswer(action="decline")),
        (AGREE, ["", "perhaps", "y"], QuestionAnswer()),
        (AGREE, ["n"], QuestionAnswer(action="decline")),
        (AGREE, ["/decline"], QuestionAnswer(action="decline")),
        (AGREE, [], None),
        (RUN, [], None),
        (form(Field(name="t")), [], None),
    ],
)
async def test_lines_become_answers(content: InboxItem, lines: Sequence[str], answer: Answer | None) -> None:
    assert await Person(lines).answer(content) == answer


@pytest.mark.parametrize("content", [RUN, PLAN, form(Field(name="s", kind="yes_no")), VISIT, AGREE])
async def test_a_line_typed_before_one_could_read_the_question_decides_nothing(content: InboxItem) -> None:
    person = Person(["y", "y", "y"], seconds=0.4)
    assert await person.answer(content) is not None
    assert "Please answer again" in person.seen
    assert len(person.prompts) == 2


async def test_all_arguments_can_be_looked_at_before_answering() -> None:
    person = Person(["?", "n"])
    await person.answer(RUN)
    assert '{"command": "make"}' in person.seen


async def test_options_have_numbers_and_the_prompt_says_what_is_expected() -> None:
    person = Person(["1"])
    await person.answer(form(Field(name="c", kind="choice", title="Which?", options=COLOURS)))
    assert person.seen.split("\n")[:3] == ["? Which?", "  1 Red", "  2 Blue"]
    assert person.prompts == ["  number, Enter to skip · /decline › "]
