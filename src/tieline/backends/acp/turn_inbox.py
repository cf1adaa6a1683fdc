"""The inbox items of one turn: approvals, plan reviews and questions from an agent.

Each item waits for a decision, which is then sent to the agent. An approval shows the agent's own options and is
answered with the id of one of them. If the user does not answer, the request is not cancelled, because most agents
would then end the whole turn. Instead, an option that rejects the request is chosen.
"""

import asyncio
import posixpath
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.fact_events import (
    command_in,
    command_of,
    given_input,
    input_of,
    plan_of,
    shown_title,
    title_of,
)
from tieline.backends.acp.forms import AgentQuestion
from tieline.backends.acp.inbox_items import ALLOW, REJECT, PlanDraft, permission_of, review_of
from tieline.backends.acp.rules import NO_RULING, PATH_FIELDS, ActionRules, AgentAction, Ruling
from tieline.backends.pending_approvals import PendingItems
from tieline.model.content import Text
from tieline.model.inbox import QuestionAnswer, ReviewAnswer, plan_review
from tieline.model.ports import Human
from tieline.tasks import Tasks
from tieline.wire.acp import facts

_FOLDER_FIELDS = ("cwd", "workdir", "working_directory", "directory")


class TurnInbox:
    """Submits requests from an agent to the inbox during one turn, and sends the decisions to the agent."""

    def __init__(
        self,
        agent: Agent,
        tasks: Tasks,
        note: Callable[[str, str], None],
        feedback: Callable[[str, bool], None],
        rules: ActionRules | None = None,
        folder: str = "",
    ) -> None:
        """`note` adds a note to the leg. Relative paths in calls are resolved against `folder`, unless it is empty.

        When the user denies a request or rejects a plan, `feedback` is called with the user's text and a flag that says
        whether the agent received this text as part of the answer.
        """
        self._agent = agent
        self._rules = rules
        self._folder = folder
        self._note = note
        self._feedback = feedback
        self._pending = PendingItems(tasks)
        self._links: dict[str, AgentQuestion] = {}
        """The open questions that ask the user to visit a URL, by their elicitation ids."""
        self.refusal = ""
        """The most recent denial and its reason. It is shown if the agent then ends the turn without any text."""

    @property
    def is_waiting(self) -> bool:
        """Whether an item waits for a decision."""
        return bool(self._pending)

    def permission(self, request: facts.PermissionRequested, human: Human, draft: PlanDraft) -> None:
        """Submit a permission request as an approval, or as a plan review if the agent wants to leave plan mode."""
        if request.call.kind == "switch_mode":
            self._begin(request.number, self._exit_plan(request, human, draft), "a plan")
        else:
            self._begin(request.number, self._permit(request, human), "a permission request")

    def plan(self, request: facts.PlanProposed, human: Human) -> None:
        """Submit a plan for review."""
        self._begin(request.number, self._propose(request, human), "a plan")

    def question(self, question: AgentQuestion, human: Human) -> None:
        """Submit a question."""
        if question.elicitation:
            self._links[question.elicitation] = question
        self._begin(question.number, self._fill(question, human), "a question")

    def complete(self, elicitation: str) -> None:
        """Accept the question with this elicitation id, if it is open. The user has visited its URL."""
        question = self._links.pop(elicitation, None)
        if question is not None:
            self.withdraw(question.number)
            self.answer(question, QuestionAnswer())

    def allow(self, request: facts.PermissionRequested) -> None:
        """Allow a permission request without asking the user."""
        self._choose(request.number, first_option(request.options, ALLOW))

    def withdraw(self, number: int) -> None:
        """Withdraw the item with this number, if it is open."""
        self._pending.withdraw(number)

    def close(self) -> None:
        """Withdraw all items."""
        self._pending.close()

    def _begin(self, number: int, work: Coroutine[Any, Any, None], what: str) -> None:
        self._pending.begin(number, work, f"{what} from {self._agent.spec.id}", lambda: self._give_up(number))

    def _give_up(self, number: int) -> None:
        self._agent.machine.refuse(number, "the user cannot be asked")
        self._agent.push()

    async def _permit(self, request: facts.PermissionRequested, human: Human) -> None:
        ruling = NO_RULING if self._rules is None else await self._rules.judge(self._action(request.call))
        if self._is_settled(request, ruling):
            return
        # In a thread, because computing the diff of a large change takes a while.
        answer = await human.permit(await asyncio.to_thread(permission_of, request, ruling))
        if answer.option is None:
            self._denied(request, answer.reason or "nobody allowed it")
            self._choose(request.number, first_option(request.options, REJECT))
            return
        kinds = {option.id: option.kind for option in request.options}
        if kinds.get(answer.option) not in ALLOW:
            self._denied(request, answer.reason)
            self._feedback(answer.reason, False)
        self._choose(request.number, answer.option if answer.option in kinds else first_option(request.options, REJECT))

    def _action(self, call: facts.AgentCall) -> AgentAction:
        return _action_in(self._folder, call) if self._folder else action_of(call)

    def _is_settled(self, request: facts.PermissionRequested, ruling: Ruling) -> bool:
        """Answer a request as the rules decided. Return False if the user has to decide instead.

        The user also has to decide if the rules allow the action but the agent offers no option that allows it.
        """
        if ruling.decision == "ask":
            return False
        option = first_option(request.options, ALLOW if ruling.decision == "allow" else REJECT)
        if ruling.decision == "allow" and option is None:
            return False
        if ruling.decision == "deny":
            self._denied(request, ruling.reason)
        self._choose(request.number, option)
        return True

    def _denied(self, request: facts.PermissionRequested, reason: str) -> None:
        if reason:
            self._note("denied", f"{title_of(request.call)}: {reason}")
        self._refused(f"“{shown_title(request.call)}” was not allowed", reason)

    def _refused(self, what: str, reason: str) -> None:
        why = " ".join(reason.split()).rstrip(".")
        self.refusal = f"{what}: {why}." if why else f"{what}."

    async def _exit_plan(self, request: facts.PermissionRequested, human: Human, draft: PlanDraft) -> None:
        review = await human.review(review_of(request, draft))
        self._reviewed(review, is_sent=False)
        offered = {option.id for option in request.options}
        usual = first_option(request.options, ALLOW if review.approved else REJECT)
        self._choose(request.number, review.option if review.option in offered else usual)

    async def _propose(self, request: facts.PlanProposed, human: Human) -> None:
        steps = plan_of(request.entries).entries
        item = plan_review(request.plan, name=request.name, overview=request.overview, steps=steps)
        review = await human.review(item)
        self._reviewed(review, is_sent=True)
        self._agent.machine.answer_plan(request.number, "accepted" if review.approved else "rejected", review.feedback)
        self._agent.push()

    def _reviewed(self, review: ReviewAnswer, *, is_sent: bool) -> None:
        if not review.approved:
            self._note("plan_rejected", review.feedback)
            self._refused("The plan was not approved", review.feedback)
            self._feedback(review.feedback, is_sent)

    async def _fill(self, question: AgentQuestion, human: Human) -> None:
        try:
            filled = await human.fill(question.form)
        finally:
            self._links.pop(question.elicitation, None)
        self.answer(question, filled)

    def answer(self, question: AgentQuestion, filled: QuestionAnswer) -> None:
        """Send the answer to a question to the agent."""
        if filled.action != "accept":
            self._note("question_declined", filled.reason or filled.action)
            self._refused("The question was not answered", filled.reason)
        self._agent.machine.answer_question(question.number, filled.action, filled.values)
        self._agent.push()

    def _choose(self, number: int, option: str | None) -> None:
        self._agent.machine.answer_permission(number, option)
        self._agent.push()


def first_option(options: Sequence[facts.PermissionOption], kinds: Sequence[str]) -> str | None:
    """Return the id of the option whose kind comes first in `kinds`, or None if no option has any of these kinds."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option.id
    return None


# ── Actions for the rules to judge ───────────────────────────────────────────────────────────────


def _action_in(folder: str, call: facts.AgentCall) -> AgentAction:
    """Return the action of a call, with relative paths resolved against `folder`."""
    action = action_of(call)
    return action._replace(
        paths=tuple(posixpath.join(folder, path) for path in action.paths),
        folder=posixpath.join(folder, action.folder),
        hinted_paths=tuple(posixpath.join(folder, path) for path in action.hinted_paths),
    )


def action_of(call: facts.AgentCall) -> AgentAction:
    """Return the action that a call would perform, to the extent that the agent describes it."""
    given = input_of(call)
    reported = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    folders = [given.get(name) for name in _FOLDER_FIELDS]
    command = command_in(given)
    paths = tuple(dict.fromkeys([*reported, *_named_paths(given)]))
    return AgentAction(
        kind=call.kind or "other",
        paths=paths,
        command=command,
        folder=next((one for one in folders if isinstance(one, str)), ""),
        is_change=bool(call.diffs),
        hinted_commands=() if command else tuple(dict.fromkeys(_hints(call))),
        hinted_paths=tuple(path for path in _named_paths(given_input(call).fields) if path not in paths),
    )


def _named_paths(given: Mapping[str, Any]) -> list[str]:
    return [one for name in PATH_FIELDS if isinstance(one := given.get(name), str) and one]


def _hints(call: facts.AgentCall) -> Iterator[str]:
    """Yield all texts of a call that may contain its command."""
    if command := command_of(call):
        yield command
    if call.kind == "execute":
        yield call.title
        yield from (part.text for part in call.content if isinstance(part, Text))
        yield " ".join(_strings(input_of(call)))


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _strings(one)
        case dict():
            for one in value.values():
                yield from _strings(one)
        case _:
            pass
