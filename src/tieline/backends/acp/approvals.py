"""What an agent asks of the person: permissions, plans and questions, each of which waits until it is decided.

The agent's own options are what is shown, and it is the id of one that answers. Nobody's answer is a no: the option
that rejects, since to call a permission cancelled tells most agents that the whole turn is over.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tieline.backends.acp.activity import plan_of, shown_title, title_of
from tieline.backends.acp.agent import Agent
from tieline.backends.acp.forms import AgentQuestion
from tieline.backends.acp.inbox_items import ALLOW, REJECT, Draft, permission_of, review_of
from tieline.backends.acp.rules import UNRULED, Deed, Ruled, Rules, deed_in, deed_of
from tieline.backends.pending_approvals import Asked
from tieline.model.inbox import QuestionAnswer, ReviewAnswer, plan_review
from tieline.model.ports import Human
from tieline.tasks import Tasks
from tieline.wire.acp import facts


class Asking:
    """What one turn asks of its person."""

    def __init__(
        self,
        agent: Agent,
        tasks: Tasks,
        note: Callable[[str, str], None],
        feedback: Callable[[str, bool], None],
        rules: Rules | None = None,
        folder: str = "",
    ) -> None:
        """`feedback` takes what a person said along with a no, and whether the agent was told so with the answer."""
        self._agent = agent
        self._rules = rules
        self._folder = folder
        self._note = note
        self._feedback = feedback
        self._asked = Asked(tasks)
        self.refusal = ""
        """What was refused last, and why: to be said if the agent ends its turn over it without a word."""

    @property
    def is_waiting(self) -> bool:
        """Whether somebody is asked."""
        return bool(self._asked)

    def permission(self, asked: facts.PermissionAsked, human: Human, draft: Draft) -> None:
        """May the agent do this? To leave the mode of planning is a question about the plan."""
        if asked.call.kind == "switch_mode":
            self._begin(asked.ask, self._exit_plan(asked, human, draft), "a plan")
        else:
            self._begin(asked.ask, self._permit(asked, human), "a permission")

    def plan(self, asked: facts.PlanProposed, human: Human) -> None:
        """Is this plan good?"""
        self._begin(asked.ask, self._propose(asked, human), "a plan")

    def question(self, question: AgentQuestion, human: Human) -> None:
        """What does the person say to this?"""
        self._begin(question.ask, self._fill(question, human), "a question")

    def allow(self, asked: facts.PermissionAsked) -> None:
        """What needs nobody's permission here."""
        self._choose(asked.ask, chosen(asked.options, ALLOW))

    def withdraw(self, ask: int) -> None:
        """This needs no answer any more."""
        self._asked.withdraw(ask)

    def close(self) -> None:
        """Nothing of this turn needs an answer any more."""
        self._asked.close()

    def _begin(self, ask: int, work: Coroutine[Any, Any, None], what: str) -> None:
        self._asked.begin(ask, work, f"{what} of {self._agent.spec.id}", lambda: self._give_up(ask))

    def _give_up(self, ask: int) -> None:
        self._agent.machine.refuse(ask, "nobody can be asked")
        self._agent.push()

    async def _permit(self, asked: facts.PermissionAsked, human: Human) -> None:
        ruled = UNRULED if self._rules is None else await self._rules.judge(self._deed(asked.call))
        if self._is_settled(asked, ruled):
            return
        # In a thread: comparing the texts of a large change takes a while.
        answer = await human.permit(await asyncio.to_thread(permission_of, asked, ruled))
        if answer.option is None:
            self._denied(asked, answer.reason or "nobody allowed it")
            self._choose(asked.ask, chosen(asked.options, REJECT))
            return
        kinds = {option.id: option.kind for option in asked.options}
        if kinds.get(answer.option) not in ALLOW:
            self._denied(asked, answer.reason)
            self._feedback(answer.reason, False)
        self._choose(asked.ask, answer.option if answer.option in kinds else chosen(asked.options, REJECT))

    def _deed(self, call: facts.Call) -> Deed:
        return deed_in(self._folder, call) if self._folder else deed_of(call)

    def _is_settled(self, asked: facts.PermissionAsked, ruled: Ruled) -> bool:
        """Answer as the rules say; return False if the person has to decide, or no option says what the rules do."""
        if ruled.decision == "ask":
            return False
        option = chosen(asked.options, ALLOW if ruled.decision == "allow" else REJECT)
        if ruled.decision == "allow" and option is None:
            return False
        if ruled.decision == "deny":
            self._denied(asked, ruled.reason)
        self._choose(asked.ask, option)
        return True

    def _denied(self, asked: facts.PermissionAsked, reason: str) -> None:
        if reason:
            self._note("denied", f"{title_of(asked.call)}: {reason}")
        self._refused(f"“{shown_title(asked.call)}” was not allowed", reason)

    def _refused(self, what: str, reason: str) -> None:
        why = " ".join(reason.split()).rstrip(".")
        self.refusal = f"{what}: {why}." if why else f"{what}."

    async def _exit_plan(self, asked: facts.PermissionAsked, human: Human, draft: Draft) -> None:
        review = await human.review(review_of(asked, draft))
        self._reviewed(review, is_told=False)
        offered = {option.id for option in asked.options}
        usual = chosen(asked.options, ALLOW if review.approved else REJECT)
        self._choose(asked.ask, review.option if review.option in offered else usual)

    async def _propose(self, asked: facts.PlanProposed, human: Human) -> None:
        steps = plan_of(asked.entries).entries
        ask = plan_review(asked.plan, name=asked.name, overview=asked.overview, steps=steps)
        review = await human.review(ask)
        self._reviewed(review, is_told=True)
        self._agent.machine.answer_plan(asked.ask, "accepted" if review.approved else "rejected", review.feedback)
        self._agent.push()

    def _reviewed(self, review: ReviewAnswer, *, is_told: bool) -> None:
        if not review.approved:
            self._note("plan_rejected", review.feedback)
            self._refused("The plan was not approved", review.feedback)
            self._feedback(review.feedback, is_told)

    async def _fill(self, question: AgentQuestion, human: Human) -> None:
        self.answer(question, await human.fill(question.form))

    def answer(self, question: AgentQuestion, filled: QuestionAnswer) -> None:
        """Give the agent what was answered."""
        if filled.action != "accept":
            self._note("question_declined", filled.reason or filled.action)
            self._refused("The question was not answered", filled.reason)
        self._agent.machine.answer_question(question.ask, filled.action, filled.values)
        self._agent.push()

    def _choose(self, ask: int, option: str | None) -> None:
        self._agent.machine.answer_permission(ask, option)
        self._agent.push()


def chosen(options: Sequence[facts.PermissionOption], kinds: Sequence[str]) -> str | None:
    """The first option of the first of these kinds that is there; None if there is none of them."""
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option.id
    return None
