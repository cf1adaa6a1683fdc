"""Asks a person about inbox items, line by line. It does no I/O of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tieline.cli.chat import cards
from tieline.cli.chat.line_editor import Submitted
from tieline.cli.chat.safe_text import one_line
from tieline.cli.inbox import answers, formatting
from tieline.model.errors import BadRequest
from tieline.model.inbox import Answer, Approval, Field, InboxItem, PlanReview, Question, QuestionAnswer

REACTION = 0.5
"""Lines are ignored for this many seconds after a question appears, because they were meant for something else."""
DECLINE = "/decline"
TOO_EARLY = "You typed this before the question appeared. Please answer again."

_KINDS = {"yes_no": "y or n", "number": "a number", "file": "path of a file", "text": "text"}
_CHOICES = {
    (False, False): "number",
    (False, True): "number or text",
    (True, False): "numbers, separated by commas",
    (True, True): "numbers or texts, separated by commas",
}

ReadLine = Callable[[str], Awaitable[Submitted | None]]
"""Shows a prompt and returns the line that the person types, or None if the item no longer needs an answer."""


class ItemPrompt:
    """Asks about inbox items. `read` reads a line, `show` prints something, `clock` returns seconds."""

    def __init__(self, read: ReadLine, show: Callable[[RenderableType], None], clock: Callable[[], float]) -> None:
        self._read = read
        self._show = show
        self._clock = clock

    async def ask(self, content: InboxItem) -> Answer | None:
        """Show an item completely, and return the answer; None if it no longer needs one."""
        match content:
            case Approval() | PlanReview():
                self._show(cards.item_card(content))
                return await self._decision(content)
            case Question(fields=()):
                self._show(cards.item_card(content))
                return await self._confirmation(content)
            case Question():
                return await self._question(content)

    async def _decision(self, content: Approval | PlanReview) -> Answer | None:
        asked_at = self._clock()
        while True:
            line = await self._read(f"  {formatting.key_hint(content)} [n] › ")
            if line is None:
                return None
            typed = line.text.strip()
            if self._clock() - asked_at < REACTION:
                self._note(TOO_EARLY)
            elif typed == "?":
                self._show(Text("\n".join(formatting.arguments(content)) or "There are no other details."))
            elif answer := self._meant(content, typed or "n"):
                return answer

    def _meant(self, content: InboxItem, typed: str) -> Answer | None:
        """Return the answer that a line expresses. If it expresses none, show a hint and return None."""
        try:
            answer = answers.from_typed(content, typed)
        except BadRequest as error:
            self._note(error.message)
            return None
        if answer is None:
            self._note(f"Type {formatting.key_hint(content)} · ? all arguments")
        return answer

    async def _confirmation(self, content: Question) -> Answer | None:
        """Ask whether the page of a question was visited or, if it has none, whether to accept the question."""
        asked_at = self._clock()
        hint = f"{'Enter when you are done' if content.url else 'y or n'} · {DECLINE}"
        while True:
            line = await self._read(f"  {hint} › ")
            if line is None:
                return None
            typed = line.text.strip().lower()
            if self._clock() - asked_at < REACTION:
                self._note(TOO_EARLY)
            elif typed == DECLINE or typed in answers.NO:
                return answers.refuse(content)
            elif typed in answers.YES or (content.url and not typed):
                return QuestionAnswer()
            else:
                self._note(f"Type {hint}")

    async def _question(self, content: Question) -> Answer | None:
        asked_at = self._clock()
        values: dict[str, Any] = {}
        for number, field in enumerate(content.fields):
            card = cards.field_card(field, content.message)
            self._show(card if number else Group(cards.item_card(content), card))
            value = await self._value(field, asked_at)
            if value is None:
                return None
            if value == DECLINE:
                return answers.refuse(content)
            if value != "":
                values[field.name] = value
        return QuestionAnswer(values=values)

    async def _value(self, field: Field, asked_at: float) -> Any:
        """Return the value of a field, "" if it is skipped, or DECLINE if the person declines the question.

        Return None if the item no longer needs an answer.
        """
        while True:
            line = await self._read(f"  {_hint(field)} › ")
            if line is None:
                return None
            typed = line.text.strip()
            if self._clock() - asked_at < REACTION:
                self._note(TOO_EARLY)
            elif typed == DECLINE:
                return DECLINE
            elif typed:
                try:
                    return answers.parse_value(field, _named(field, typed))
                except BadRequest as error:
                    self._note(error.message)
            elif field.default is not None:
                return field.default
            elif field.required:
                self._note(f"An answer is required; {DECLINE} declines the question.")
            else:
                return ""

    def _note(self, text: str) -> None:
        self._show(Text(text, style="yellow"))


def _hint(field: Field) -> str:
    """Return a prompt that says what kind of value is expected."""
    kind = _CHOICES[field.many, field.is_open] if field.kind == "choice" else _KINDS[field.kind]
    default = f" [{one_line(str(field.default), 40)}]" if field.default is not None else ""
    return f"{kind}{default}{'' if field.required else ', Enter to skip'} · {DECLINE}"


def _named(field: Field, typed: str) -> str:
    """Return the text with option numbers replaced by option ids."""
    if field.kind != "choice":
        return typed
    ids = [option.id for option in field.options]
    words = [word.strip() for word in (typed.split(",") if field.many else [typed])]
    return ",".join(
        ids[int(word) - 1] if word.isdecimal() and word not in ids and 0 < int(word) <= len(ids) else word
        for word in words
    )
