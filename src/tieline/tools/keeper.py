"""The gateway's tools under rules: what may be done is done, what may not is refused, for the rest a person is asked.

A turn has a mode. In *chat* there are no tools. In *plan* the model may look, ask and put a plan before the person; once
that is approved the mode is *agent*, where it may do everything the rules and the person allow.
"""

import asyncio
from collections.abc import Callable

from tieline.model.asks import ALLOW, ALWAYS, DENY, Field, Filled, Form, Option, Permission, PlanReview
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.events import PlanEntry, Status
from tieline.model.ports import Host
from tieline.model.request import ToolSpec
from tieline.tools import planning
from tieline.tools.arguments import BadArguments
from tieline.tools.asks import Ask
from tieline.tools.box import READING, Toolbox
from tieline.tools.planning import AskQuestion, CreatePlan, SwitchMode
from tieline.tools.policy import Policy, Rule

MODES = ("chat", "plan", "agent")

_STATUS: dict[str, Status] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "failed",
}
_KINDS = {
    "read_file": "read",
    "list_directory": "read",
    "search_files": "search",
    "search_content": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "run_terminal": "execute",
    "create_plan": "switch_mode",
    "switch_mode": "switch_mode",
}


class Keeper:
    """Hands out tools for turns; `save` keeps what was answered with "always"."""

    def __init__(
        self, box: Toolbox, policy: Policy, *, save: Callable[[tuple[Rule, ...]], None] = lambda _: None
    ) -> None:
        self._box = box
        self._policy = policy
        self._save = save

    def open(self, mode: str) -> "TurnTools":
        """Tools for a turn in this mode."""
        if mode not in MODES:
            raise BadRequest(f"there is no mode `{mode}`: the modes are {', '.join(MODES)}", "model")
        return TurnTools(self._box, self._policy, self._save, mode)


class TurnTools:
    """The tools of one turn."""

    def __init__(self, box: Toolbox, policy: Policy, save: Callable[[tuple[Rule, ...]], None], mode: str) -> None:
        self.mode = mode
        self._box = box
        self._policy = policy
        self._save = save

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        if self.mode == "chat":
            return ()
        tools = self._box.specs
        if self.mode == "plan":
            tools = tuple(spec for spec in tools if spec.name in READING)
        return (*tools, *planning.SPECS)

    def owns(self, name: str) -> bool:
        return self._box.owns(name) or planning.owns(name)

    def kind_of(self, call: ToolCall) -> str:
        return _KINDS.get(call.name, "other")

    async def execute(self, call: ToolCall, host: Host) -> ToolResult:
        if planning.owns(call.name):
            return await self._planned(call, host)
        if not any(spec.name == call.name for spec in self.specs):
            return _no(call, f"{call.name} is not available in the mode `{self.mode}`. {self._way_out()}")
        verdict = await asyncio.to_thread(self._policy.decide, call)
        if verdict.decision == "deny":
            return _no(call, f"Not allowed: {verdict.reason}.")
        if verdict.decision == "ask":
            refused = await self._asked(call, host)
            if refused is not None:
                return refused
        return await self._box.execute(call)

    def _way_out(self) -> str:
        return "Put your plan before the user with create_plan." if self.mode == "plan" else "Answer without it."

    async def _asked(self, call: ToolCall, host: Host) -> ToolResult | None:
        """Ask the person; the result of a refusal, or None if it may be done."""
        ask = await self._box.describe(call)
        if ask.problem is not None:
            return _no(call, ask.problem)
        suggested = await asyncio.to_thread(self._policy.suggest, call)
        permitted = await host.human.permit(_permission(ask, suggested))
        if permitted.option == ALWAYS.id and suggested:
            self._policy.remember(suggested[0])
            await asyncio.to_thread(self._save, self._policy.remembered)
        if permitted.option in (ALLOW.id, ALWAYS.id):
            return None
        reason = f" {permitted.reason}" if permitted.reason else ""
        return _no(call, f"The user did not allow this.{reason} Do not try it again in another way; ask what to do.")

    # ── Plans, questions, modes ──────────────────────────────────────────────────────────────────

    async def _planned(self, call: ToolCall, host: Host) -> ToolResult:
        try:
            said = planning.read(call)
        except BadArguments as error:
            return _no(call, str(error))
        match said:
            case CreatePlan():
                return await self._review(call, said, host)
            case AskQuestion():
                filled = await host.human.fill(_form(said))
                return _answered(call, filled)
            case SwitchMode():
                return await self._switch(call, said, host)

    async def _review(self, call: ToolCall, plan: CreatePlan, host: Host) -> ToolResult:
        steps = tuple(PlanEntry(content=todo.content, status=_STATUS[todo.status]) for todo in plan.todos)
        reviewed = await host.human.review(PlanReview(title=plan.title, plan=plan.plan, steps=steps))
        if not reviewed.approved:
            feedback = reviewed.feedback or "The user gave no reason."
            return _no(call, f"The plan was not approved. {feedback}")
        self.mode = "agent"
        return _yes(call, "The plan is approved. Carry it out now; every tool is available.")

    async def _switch(self, call: ToolCall, said: SwitchMode, host: Host) -> ToolResult:
        if said.mode == self.mode:
            return _yes(call, f"The mode is `{self.mode}` already.")
        if MODES.index(said.mode) > MODES.index(self.mode):
            ask = Permission(
                title=f"Go on in the mode {said.mode}", kind="switch_mode", detail=said.reason, options=(ALLOW, DENY)
            )
            permitted = await host.human.permit(ask)
            if permitted.option != ALLOW.id:
                return _no(call, f"The user wants to stay in the mode `{self.mode}`. {permitted.reason}".strip())
        self.mode = said.mode
        return _yes(call, f"The mode is `{self.mode}` now.")


def _permission(ask: Ask, suggested: tuple[Rule, ...]) -> Permission:
    always = (
        Option(id=ALWAYS.id, label=ALWAYS.label, kind=ALWAYS.kind, description=str(suggested[0])) if suggested else None
    )
    return Permission(
        title=ask.title,
        tool=ask.tool,
        kind=ask.kind,
        path=ask.path,
        command=ask.command,
        diff=ask.diff,
        detail=ask.detail,
        options=(ALLOW, always, DENY) if always else (ALLOW, DENY),
    )


def _form(question: AskQuestion) -> Form:
    options = tuple(
        Option(id=option.label, label=option.label, description=option.description) for option in question.options
    )
    field = Field(
        name="answer",
        kind=question.kind,
        title=question.question,
        required=True,
        options=options,
        many=question.multiple,
        minimum=question.minimum,
        maximum=question.maximum,
    )
    return Form(message=question.question, fields=(field,))


def _answered(call: ToolCall, filled: Filled) -> ToolResult:
    if filled.action == "accept":
        answer = filled.values.get("answer")
        words = ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else str(answer)
        return _yes(call, f"The user answered: {words}")
    reason = filled.reason or (
        "The user does not want to answer." if filled.action == "decline" else "There is no answer."
    )
    return _no(call, f"{reason} Go on without, or end the turn with the question in plain text.")


def _yes(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),))


def _no(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)
