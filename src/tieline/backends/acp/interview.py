"""Asks an agent's questions as plain text in the conversation, one after the other.

`Interview.text` returns the text to write; `Interview.answer` is called with the user's next message and returns the
outcome. If two messages fail to answer a question, the question is declined, and the second message is passed to the
agent. A question that asks only for consent is declined by the first message that does not consent.
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

MAX_TRIES = 2


class InterviewOutcome(NamedTuple):
    """A settled question and its answer. If the user's message did not answer the question, `text` is that message."""

    question: AgentQuestion
    filled: QuestionAnswer
    text: str = ""


class Interview:
    """The questions of one turn that the user answers with messages in the conversation."""

    def __init__(self) -> None:
        self._questions: deque[AgentQuestion] = deque()
        self._values: dict[str, Any] = {}
        self._fields: list[Field] = []
        self._remark = ""
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._questions)

    def add(self, question: AgentQuestion) -> None:
        """Add a question. It is asked after those that were added earlier."""
        self._questions.append(question)
        if len(self._questions) == 1:
            self._begin()

    def text(self) -> str:
        """Return the text of the current question."""
        form = merge_custom_fields(self._questions[0].form)
        text = question_text(form, self._fields)
        return f"{self._remark}\n\n{text}" if self._remark else text

    def answer(self, text: str) -> InterviewOutcome | None:
        """Use the user's message as the answer to the current question.

        Return None if the question has to be asked again or if some of its fields are still missing.
        """
        self._remark = ""
        question = self._questions[0]
        if question.form.url or not self._fields:
            return self._consented(text)
        try:
            given = parse_answers(text, self._fields)
        except AnswerSkipped:
            return self._settle(QuestionAnswer(action="decline", reason=text))
        except UnclearAnswer as problem:
            return self._again(str(problem), text)
        self._values |= given.values
        del self._fields[: given.taken]
        if not all(map(may_be_skipped, self._fields)):
            return None
        return self._settle(QuestionAnswer(values=split_custom_fields(self._values, question.form)))

    def withdraw(self, number: int) -> bool:
        """Remove a question that no longer needs an answer. Return whether it was the current one."""
        found = next((question for question in self._questions if question.number == number), None)
        if found is None:
            return False
        is_first = found is self._questions[0]
        self._questions.remove(found)
        if is_first:
            self._begin()
        return is_first

    def find(self, elicitation: str) -> AgentQuestion | None:
        """Return the question that asks the user to visit a URL and has this `elicitation` id, or None."""
        return next((one for one in self._questions if one.elicitation and one.elicitation == elicitation), None)

    def _consented(self, text: str) -> InterviewOutcome:
        if is_consent(text):
            return self._settle(QuestionAnswer())
        return self._settle(QuestionAnswer(action="decline", reason=text), "" if is_refusal(text) else text)

    def _again(self, remark: str, text: str) -> InterviewOutcome | None:
        self._tries += 1
        if self._tries >= MAX_TRIES:
            return self._settle(QuestionAnswer(action="decline", reason=text), text)
        self._remark = remark
        return None

    def _settle(self, filled: QuestionAnswer, text: str = "") -> InterviewOutcome:
        question = self._questions.popleft()
        self._begin()
        return InterviewOutcome(question, filled, text)

    def _begin(self) -> None:
        """Prepare for the answer to the question that is now the current one."""
        self._values, self._tries, self._remark = {}, 0, ""
        self._fields = list(merge_custom_fields(self._questions[0].form).fields) if self._questions else []
