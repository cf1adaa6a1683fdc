"""Questions put to a person in plain text, in a conversation: one after the other, each until it is answered.

It says what to write, hears what the person writes, and tells what became of a question. A person who says something
else twice wants something else: the question is declined, and the words are for the agent.
"""

from collections import deque
from typing import Any, NamedTuple

from tieline.backends.acp.forms import AgentQuestion
from tieline.model.inbox import Field, QuestionAnswer
from tieline.wire.shared.questions.text import (
    AnswerSkipped,
    UnclearAnswer,
    is_consent,
    is_refusal,
    may_be_skipped,
    merge_custom_fields,
    parse_answers,
    question_text,
    split_custom_fields,
)

TRIES = 2


class Outcome(NamedTuple):
    """A question is settled; `words` are something else that was said instead of an answer."""

    question: AgentQuestion
    filled: QuestionAnswer
    words: str = ""


class Interview:
    """The questions of one turn that nobody but the next message can answer."""

    def __init__(self) -> None:
        self._questions: deque[AgentQuestion] = deque()
        self._values: dict[str, Any] = {}
        self._fields: list[Field] = []
        self._remark = ""
        self._tries = 0
        self._is_told = False

    def __bool__(self) -> bool:
        return bool(self._questions)

    @property
    def is_waiting(self) -> bool:
        """Whether a question has been put and not answered."""
        return self._is_told

    def add(self, question: AgentQuestion) -> None:
        """One more question; it waits for those before it."""
        self._questions.append(question)
        if len(self._questions) == 1:
            self._begin()

    def put(self) -> str:
        """What to write now; it counts as written."""
        self._is_told = True
        form = merge_custom_fields(self._questions[0].form)
        text = question_text(form, self._fields)
        return f"{self._remark}\n\n{text}" if self._remark else text

    def hear(self, words: str) -> Outcome | None:
        """What the person wrote; None if something is still to be asked."""
        self._is_told = False
        self._remark = ""
        question = self._questions[0]
        if question.form.url or not self._fields:
            return self._consented(words)
        try:
            given = parse_answers(words, self._fields)
        except AnswerSkipped:
            return self._settle(QuestionAnswer(action="decline", reason=words))
        except UnclearAnswer as problem:
            return self._again(str(problem), words)
        self._values |= given.values
        del self._fields[: given.taken]
        if not all(map(may_be_skipped, self._fields)):
            return None
        return self._settle(QuestionAnswer(values=split_custom_fields(self._values, question.form)))

    def withdraw(self, ask: int) -> bool:
        """A question needs no answer any more; whether it was one of these."""
        found = next((question for question in self._questions if question.ask == ask), None)
        if found is None:
            return False
        is_first = found is self._questions[0]
        self._questions.remove(found)
        if is_first:
            self._begin()
        return True

    def done(self, elicitation: str) -> Outcome | None:
        """The agent says that what was to be done at an address has been done."""
        first = self._questions[0] if self._questions else None
        if first is None or not elicitation or first.elicitation != elicitation:
            return None
        return self._settle(QuestionAnswer())

    def _consented(self, words: str) -> Outcome:
        if is_consent(words):
            return self._settle(QuestionAnswer())
        return self._settle(QuestionAnswer(action="decline", reason=words), "" if is_refusal(words) else words)

    def _again(self, remark: str, words: str) -> Outcome | None:
        self._tries += 1
        if self._tries >= TRIES:
            return self._settle(QuestionAnswer(action="decline", reason=words), words)
        self._remark = remark
        return None

    def _settle(self, filled: QuestionAnswer, words: str = "") -> Outcome:
        question = self._questions.popleft()
        self._begin()
        return Outcome(question, filled, words)

    def _begin(self) -> None:
        """The first question is to be put."""
        self._values, self._tries, self._remark, self._is_told = {}, 0, "", False
        self._fields = list(merge_custom_fields(self._questions[0].form).fields) if self._questions else []
