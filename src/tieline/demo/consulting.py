"""Turns in which the demo model consults the user with the tools `create_plan` and `ask_question`.

The user requests such a turn with a message like these:

    make a plan: read a.txt, then write hello to b.txt     a plan to review; if approved, its steps are carried out
    ask me: which tea? Assam, Sencha or Oolong             a question with options
    ask me about the garden                                a question to be answered in free text

Similar tools of clients are not used for this, because their names and arguments differ too much.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.action_plan import plan_actions
from tieline.demo.actions import Action
from tieline.demo.conversation import CallOutcome, DemoConversation
from tieline.demo.phrases import report, shortened
from tieline.demo.reply_steps import CallTool, DemoReply, Say, Step
from tieline.demo.tool_arguments import callable_tools
from tieline.demo.tool_matching import describe, match_tools
from tieline.model.request import Request

PLAN, QUESTION, TODOS = "create_plan", "ask_question", "todo_write"
MAX_TITLE = 100
MAX_OPTIONS = 8

_POLITE = r"(?:please |now |can you |could you )*"
_PLAN = re.compile(
    rf"{_POLITE}(?:make|propose|draft) (?:me )?a plan(?::| to| for| in which you)\s{{1,3}}(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_ASK = re.compile(
    rf"{_POLITE}ask me(?: a question)?(?::| about)?(?:\s{{1,3}}(?P<what>\S.*))?", re.IGNORECASE | re.DOTALL
)
_OPTIONS = re.compile(r"(?P<question>[^?]{1,300}\?)\s*(?P<options>[^?]{1,400})")
_ANSWERED = re.compile(r"The user answered: (?P<answer>.*)", re.DOTALL)


def consult(request: Request, conversation: DemoConversation) -> DemoReply | None:
    """Return the reply of a turn that consults the user.

    Return None if the user requests no such turn, or if the client does not offer the tool for it.
    """
    offered = {tool.name for tool in request.tools}
    words = conversation.user_text
    if request.tool_choice.mode == "none" or len(words) > 2000:
        return None
    if (PLAN in offered or _has_called(conversation, PLAN)) and (found := _PLAN.fullmatch(words)):
        return DemoReply(steps=_PlannedTurn(request, conversation, found["what"].strip(" .")).steps())
    if (QUESTION in offered or _has_called(conversation, QUESTION)) and (found := _ASK.fullmatch(words)):
        return DemoReply(steps=_question((found["what"] or "").strip(), conversation.outcomes))
    return None


def _has_called(conversation: DemoConversation, tool: str) -> bool:
    return any(outcome.name == tool for outcome in conversation.outcomes)


def _question(what: str, outcomes: Sequence[CallOutcome]) -> tuple[Step, ...]:
    if not outcomes:
        return Say(text="I need to know one thing before I go on."), _call(QUESTION, _question_arguments(what))
    answered = _ANSWERED.match(outcomes[0].text)
    if answered is None:
        return (Say(text=f"You did not answer, so I go on without it. {outcomes[0].text}"),)
    answer = shortened(answered["answer"], 500)
    return (Say(text=f"You answered **{answer}**. A real model would now continue with this answer."),)


def _question_arguments(what: str) -> dict[str, Any]:
    found = _OPTIONS.fullmatch(what)
    options = re.split(r"\s*,\s*(?:or\s+)?|\s+or\s+", found["options"].strip(" .!")) if found else []
    options = list(dict.fromkeys(option for option in options if option))[:MAX_OPTIONS]
    if found is None or len(options) < 2:
        question = what if what.endswith("?") else f"What should I know about {what or 'your project'}?"
        return {"question": question[:1].upper() + question[1:], "kind": "text"}
    question = found["question"][:1].upper() + found["question"][1:]
    return {"question": question, "kind": "choice", "options": [{"label": option} for option in options]}


class _PlannedTurn:
    """A turn that proposes a plan and, once it is approved, carries out its steps one by one."""

    def __init__(self, request: Request, conversation: DemoConversation, what: str) -> None:
        self._tools = callable_tools(request.tools, request.tool_choice.names)
        self._has_todos = any(tool.name == TODOS for tool in self._tools)
        self._conversation = conversation
        parsed = plan_actions(what, [tool.name for tool in self._tools])
        self._actions = [action for group in parsed for action in group] or [Action(kind="list")]

    def steps(self) -> tuple[Step, ...]:
        rounds = self._conversation.rounds
        if not rounds:
            return (Say(text="This takes several steps, so here is a plan for you to review."), self._proposal())
        reviewed = rounds[0][0]
        if reviewed.is_error:
            return (Say(text=f"{reviewed.text} I have changed nothing."),)
        done = [self._outcome(group) for group in rounds[1:]]
        failed = next((number for number, outcome in enumerate(done) if outcome is None or outcome.is_error), None)
        if failed is not None and failed < len(self._actions):
            return self._after_failure(failed, done[failed], is_marked=len(done) > failed + 1)
        if len(done) < len(self._actions):
            return self._next(len(done))
        if len(done) == len(self._actions) and self._has_todos:
            return (self._todos(len(self._actions)),)
        outcomes = [outcome for outcome in done[: len(self._actions)] if outcome is not None]
        return (Say(text="\n\n".join(["All steps of the plan are done.", *map(report, outcomes[-1:])])),)

    def _proposal(self) -> CallTool:
        first, *others = [describe(action) for action in self._actions]
        title = ", then ".join([first, *(f"{text[:1].lower()}{text[1:]}" for text in others)])
        todos = [self._item(number, "pending") for number in range(len(self._actions))]
        plan = "I will work through these steps in order. Nothing is done before you approve the plan."
        return _call(PLAN, {"title": shortened(title, MAX_TITLE), "plan": plan, "todos": todos})

    def _next(self, number: int) -> tuple[Step, ...]:
        action = self._actions[number]
        matched = match_tools(action, self._tools, self._conversation.directory)
        if not matched:
            return (Say(text=f"I cannot go on: no tool here can do this step ({describe(action)})."),)
        say = Say(text=f"Step {number + 1} of {len(self._actions)}: {describe(action)}.")
        return (say, *((self._todos(number),) if self._has_todos else ()), matched[0].call)

    def _after_failure(self, number: int, outcome: CallOutcome | None, *, is_marked: bool) -> tuple[Step, ...]:
        if self._has_todos and not is_marked:
            return (self._todos(number, failed=True),)
        why = outcome.text if outcome is not None else "There is no result."
        return (Say(text=f"Step {number + 1} was not done, so I stop here. {why}"),)

    def _outcome(self, group: Sequence[CallOutcome]) -> CallOutcome | None:
        """Return the outcome of a step. Its round also contains the outcome of `todo_write`."""
        return next((outcome for outcome in reversed(group) if outcome.name != TODOS), group[-1] if group else None)

    def _todos(self, current: int, *, failed: bool = False) -> CallTool:
        """Return the call that marks the steps before `current` as completed, and `current` as in progress.

        If `failed` is true, `current` is marked as cancelled instead.
        """
        items = []
        for number in range(len(self._actions)):
            status = "completed" if number < current else "pending"
            if number == current:
                status = "cancelled" if failed else "in_progress"
            items.append(self._item(number, status))
        return _call(TODOS, {"todos": items})

    def _item(self, number: int, status: str) -> dict[str, str]:
        return {"id": str(number + 1), "content": describe(self._actions[number]), "status": status}


def _call(name: str, arguments: Mapping[str, Any]) -> CallTool:
    return CallTool(name=name, arguments=msgspec.json.encode(arguments).decode())
