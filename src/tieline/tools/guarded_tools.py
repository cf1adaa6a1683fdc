"""The gateway's tools under rules: what may be done is done, what may not is refused, for the rest a person is asked.

A turn has a mode. In *chat* there are no tools. In *plan* the model may look, ask and put a plan before the person;
once that is approved the mode is *agent*, where it may do everything the rules and the person allow.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Diff
from tieline.model.inbox import (
    ALLOW,
    ALWAYS,
    DENY,
    Approval,
    ApprovalAnswer,
    Field,
    Option,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
    mode_switch,
    within_limit,
)
from tieline.model.ports import Host, Progress, Report, unheard
from tieline.model.request import ToolSpec
from tieline.model.rules import Rule
from tieline.tools import planning
from tieline.tools.approvals import Ask
from tieline.tools.arguments import BadArguments
from tieline.tools.errors import ToolFailed
from tieline.tools.grant_text import grant_words
from tieline.tools.invisible_text import visible
from tieline.tools.planning import AskQuestion, CreatePlan, SwitchMode
from tieline.tools.policy import DEFAULTS, Policy, Subject, Verdict, retired
from tieline.tools.todos import TODO_READ, TODO_WRITE, Todos, plan_of
from tieline.tools.toolbox import READING, Toolbox

log = logging.getLogger("tieline.tools")

MODES = ("chat", "plan", "agent")
NOBODY = (
    "Nobody is there to answer now. End your turn with the question in plain text: what the user says next is the "
    "answer."
)

Note = Callable[[Subject, Verdict], None]

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
    """Hands out tools for turns.

    `note` hears of what rules decided without a person, but for what is allowed as long as no rule says otherwise.
    """

    def __init__(self, box: Toolbox, policy: Policy, *, note: Note = lambda _, __: None) -> None:
        self.policy = policy
        self._box = box
        self._note = note

    @property
    def workspace(self) -> str:
        """Where the tools act."""
        return self._box.workspace.root

    async def has_file(self, path: str) -> bool:
        """Whether this is a file of the workspace."""
        return await asyncio.to_thread(self._box.workspace.has_file, path)

    def open(self, mode: str) -> "TurnTools":
        """Tools for a turn in this mode."""
        if mode not in MODES:
            raise BadRequest(f"there is no mode `{mode[:40]}`: the modes are {', '.join(MODES)}", "model")
        return TurnTools(self, self._box, mode)

    async def cleared(self, call: ToolCall, host: Host) -> "Judged | Refusal":
        """Return what a call is about if it may be done, or why not; where the rules say so, the person is asked.

        Whoever does it must act on `subject.path` and on nothing else: see `Workspace.pinned`.
        """
        judged = await self.judge(call)
        if judged.verdict.decision == "ask":
            return await self.asked(call, judged, host) or judged
        self.decided(judged)
        return judged.refusal or judged

    async def asked(self, call: ToolCall, judged: "Judged", host: Host) -> "Refusal | None":
        """Ask the person; return why it may not be done, or None if it may."""
        ask = await self._box.describe(call, judged.subject.path)
        if ask.problem is not None:
            return Refusal(ask.problem)
        always = {f"{ALWAYS.id}-{n}" if n > 1 else ALWAYS.id: rule for n, rule in enumerate(judged.suggested, 1)}
        permission = await asyncio.to_thread(_permission, ask, call.arguments, always)  # a large one takes a while
        permitted = await host.human.permit(permission)
        if permitted.option in always:
            await self.remember(always[permitted.option])
        elif permitted.option != ALLOW.id:
            return _denied(permitted, ask.change)
        return await self._changed(call, judged)

    async def judge(self, call: ToolCall) -> "Judged":
        """What the rules say of a call."""
        return await asyncio.to_thread(self._judged, call)

    def decided(self, judged: "Judged") -> None:
        """A call is done or refused without asking anybody."""
        if judged.verdict.rule not in DEFAULTS:
            self._note(judged.subject, judged.verdict)

    async def remember(self, rule: Rule) -> None:
        """Allow something for good; it holds until the end of the program even if it cannot be saved."""
        try:
            await asyncio.to_thread(self.policy.remember, rule)
        except OSError as error:
            log.warning("what was allowed for good cannot be kept: %s", error)

    async def revoke(self, rule_id: str) -> bool:
        """Allow something no longer; return whether it was allowed. Raises GatewayError if it would come back."""
        try:
            return await asyncio.to_thread(self.policy.revoke, rule_id)
        except OSError as error:
            message = f"It is revoked until the gateway is started again, but that cannot be kept: {error}."
            raise GatewayError("internal", message) from error

    async def listed(self) -> list[tuple[Rule, str]]:
        """Return what was answered with "always", and for each why it covers nothing any more, if so."""
        rules = await asyncio.to_thread(lambda: self.policy.remembered)
        return [(rule, retired(rule)) for rule in rules]

    async def _changed(self, call: ToolCall, judged: "Judged") -> "Refusal | None":
        """Refuse if what would be done now is not what the person allowed: answering takes time."""
        now = await self.judge(call)
        if now.verdict.decision == "deny" or now.subject != judged.subject:
            return Refusal(
                f"{call.name} leads somewhere else now than when the user was asked. Look again.",
                "Not done: the path leads somewhere else now than when you were asked.",
            )
        return None

    def _judged(self, call: ToolCall) -> "Judged":
        try:
            subject = self.policy.subject(call)
        except ToolFailed as error:
            return Judged(Subject(tool=call.name), Verdict(decision="deny", reason=str(error)), problem=str(error))
        verdict = self.policy.judge(subject)
        return Judged(subject, verdict, self.policy.suggest(subject) if verdict.decision == "ask" else ())


class Refusal(NamedTuple):
    """Why a call was not done: in words for the model, and in words for the person who looks on."""

    told: str
    shown: str = ""
    """Empty: the same as the model is told."""
    change: Diff | None = None
    """What would have been changed."""


class Judged(NamedTuple):
    """What a call is about, what the rules say of it, and what "always" could mean, the narrowest first."""

    subject: Subject
    verdict: Verdict
    suggested: tuple[Rule, ...] = ()
    problem: str = ""
    """Why the call cannot be judged: its arguments cannot be read, or its path leads outside."""

    @property
    def refusal(self) -> Refusal | None:
        """Why it may not be done, if the rules already say so."""
        if self.verdict.decision != "deny":
            return None
        return Refusal(self.problem or _sentence(f"Not allowed: {self.verdict.reason}"))

    @property
    def is_free(self) -> bool:
        """Whether nobody wants to be asked anything (--yolo)."""
        return self.verdict.decision == "allow" and self.verdict.rule is None


class TurnTools:
    """The tools of one turn."""

    def __init__(self, keeper: Keeper, box: Toolbox, mode: str) -> None:
        self.mode = mode
        self._keeper = keeper
        self._box = box
        # A list of its own: two conversations in one workspace must not write into the same.
        self._todos = Todos()

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

    async def execute(self, call: ToolCall, host: Host, report: Report = unheard) -> ToolResult:
        if not any(spec.name == call.name for spec in self.specs):
            missing = f"{call.name} is not available in the mode `{self.mode}`."
            return _refused(call, Refusal(f"{missing} {self._way_out()}", missing), report)
        judged = await self._keeper.judge(call)
        if judged.verdict.decision != "ask":
            self._keeper.decided(judged)
        if (refusal := judged.refusal) is not None:
            return _refused(call, refusal, report)
        if planning.owns(call.name):
            return await self._planned(call, host, report, is_free=judged.is_free)
        if judged.verdict.decision == "ask" and (refusal := await self._keeper.asked(call, judged, host)) is not None:
            return _refused(call, refusal, report)
        if call.name in (TODO_READ.name, TODO_WRITE.name):
            return self._listed(call, report)
        report(Progress())
        return await self._box.execute(call, report, place=judged.subject.path)

    def _way_out(self) -> str:
        return "Put your plan before the user with create_plan." if self.mode == "plan" else "Answer without it."

    def _listed(self, call: ToolCall, report: Report) -> ToolResult:
        try:
            if call.name == TODO_READ.name:
                TODO_READ.read(call)
                return _yes(call, self._todos.read())
            text = self._todos.write(TODO_WRITE.read(call))
        except ToolFailed as error:
            return _no(call, str(error))
        report(plan_of(self._todos.items))
        report(Progress(output=""))  # the plan shows it already
        return _yes(call, text)

    # ── Plans, questions, modes ──────────────────────────────────────────────────────────────────

    async def _planned(self, call: ToolCall, host: Host, report: Report, *, is_free: bool) -> ToolResult:
        try:
            said = planning.read(call)
        except BadArguments as error:
            return _no(call, str(error))
        match said:
            case CreatePlan():
                # Whoever chose to plan first wants to see the plan, whatever else is allowed.
                return await self._review(call, said, host, report, is_free=is_free and self.mode == "agent")
            case AskQuestion():
                return await self._question(call, said, host, report)
            case SwitchMode():
                return await self._switch(call, said, host, report)

    async def _question(self, call: ToolCall, said: AskQuestion, host: Host, report: Report) -> ToolResult:
        if not host.human.is_present:
            return _refused(call, Refusal(NOBODY, "Not asked: nobody was there to answer."), report)
        return _answered(call, await host.human.fill(_form(said)), report)

    async def _review(
        self, call: ToolCall, plan: CreatePlan, host: Host, report: Report, *, is_free: bool
    ) -> ToolResult:
        steps = plan_of(plan.todos)
        if not is_free:
            reviewed = await host.human.review(PlanReview(title=plan.title, plan=plan.plan, steps=steps.entries))
            if not reviewed.approved:
                return _refused(call, _rejected(reviewed), report)
        self.mode = "agent"
        approved = "The plan is approved. Carry it out now; every tool is available."
        if not plan.todos:
            return _yes(call, approved)
        # What was approved is what is to be done: from here on the list and the plan are one.
        self._todos = Todos(plan.todos)
        report(steps)
        return _yes(call, f"{approved} Its steps are your list of things to do: keep their status with todo_write.")

    async def _switch(self, call: ToolCall, said: SwitchMode, host: Host, report: Report) -> ToolResult:
        if said.mode == self.mode:
            return _yes(call, f"The mode is `{self.mode}` already.")
        if MODES.index(said.mode) > MODES.index(self.mode):
            permitted = await host.human.permit(mode_switch(said.mode, said.reason, call.name))
            if permitted.option != ALLOW.id:
                told = f"The user wants to stay in the mode `{self.mode}`. {permitted.reason}".strip()
                return _refused(call, Refusal(told, _shown_denial(permitted)), report)
        self.mode = said.mode
        return _yes(call, f"The mode is `{self.mode}` now.")


def _permission(ask: Ask, arguments: str, always: Mapping[str, Rule]) -> Approval:
    """What the user is asked; nothing that is not shown whole can be allowed for good."""
    shown, hidden = within_limit((ask.command or "", ask.diff, ask.detail, visible(arguments)))
    command, diff, detail, given = shown
    remembered = (
        Option(id=name, label=visible(grant_words(rule)), kind=ALWAYS.kind, description=str(rule))
        for name, rule in always.items()
    )
    return Approval(
        title=ask.title,
        tool=ask.tool,
        kind=ask.kind,
        path=ask.path,
        command=None if ask.command is None else command,
        diff=diff,
        detail=detail,
        input=given,
        hidden=hidden,
        risk=ask.risk,
        options=(ALLOW, DENY) if hidden else (ALLOW, *remembered, DENY),
    )


def _form(question: AskQuestion) -> Question:
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
    return Question(message=question.question, fields=(field,))


def _answered(call: ToolCall, filled: QuestionAnswer, report: Report) -> ToolResult:
    if filled.action == "accept":
        answer = filled.values.get("answer")
        words = ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else _words(answer)
        return _yes(call, f"The user answered: {words}")
    reason = filled.reason or (
        "The user does not want to answer." if filled.action == "decline" else "There is no answer."
    )
    told = f"{_sentence(reason)} Go on without, or end the turn with the question in plain text."
    return _refused(call, Refusal(told, filled.reason or "Not answered."), report)


def _denied(permitted: ApprovalAnswer, change: Diff | None) -> Refusal:
    reason = f" {_sentence(permitted.reason)}" if permitted.reason else ""
    told = f"The user did not allow this.{reason} Do not try it again in another way; ask what to do."
    return Refusal(told, _shown_denial(permitted), change)


def _shown_denial(permitted: ApprovalAnswer) -> str:
    """A no in words for the person: who said it, or why nobody did."""
    if permitted.option is None:
        return f"Not allowed. {_sentence(permitted.reason)}" if permitted.reason else "Not allowed."
    return f"Denied: {_sentence(permitted.reason)}" if permitted.reason else "Denied."


def _rejected(reviewed: ReviewAnswer) -> Refusal:
    told = f"The plan was not approved. {reviewed.feedback or 'The user gave no reason.'}"
    if reviewed.is_unanswered or not reviewed.feedback:
        return Refusal(told, f"The plan was not approved. {reviewed.feedback}".strip())
    return Refusal(told, f"Changes requested: {reviewed.feedback}")


def _sentence(words: str) -> str:
    """The words with a full stop, unless they end with a mark already."""
    trimmed = words.rstrip()
    return trimmed if trimmed.endswith((".", "!", "?", "…")) else f"{trimmed}."


def _refused(call: ToolCall, refusal: Refusal, report: Report) -> ToolResult:
    changes = (refusal.change,) if refusal.change is not None else ()
    report(Progress(output=refusal.shown or refusal.told, diffs=changes))
    return _no(call, refusal.told)


def _words(answer: Any) -> str:
    return ("yes" if answer else "no") if isinstance(answer, bool) else str(answer)


def _yes(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),))


def _no(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)
