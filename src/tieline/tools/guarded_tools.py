"""The gateway's tools, guarded by rules: a call is allowed, refused, or presented to a person.

A turn has a mode. In *chat* there are no tools. In *plan* the model can read, ask questions and propose a plan; once
the plan is approved, the mode changes to *agent*. In *agent* the model can do everything that the rules and the person
allow.
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
from tieline.model.ports import Host, Progress, Report, no_report
from tieline.model.request import ToolSpec
from tieline.model.rules import Rule
from tieline.tools import planning
from tieline.tools.arguments import BadArguments
from tieline.tools.call_preview import CallPreview
from tieline.tools.errors import ToolFailed
from tieline.tools.grant_text import grant_label, grant_summary
from tieline.tools.invisible_text import visible
from tieline.tools.planning import AskQuestion, CreatePlan, SwitchMode
from tieline.tools.policy import DEFAULTS, Policy, Subject, Verdict, retirement_reason
from tieline.tools.todos import TODO_READ, TODO_WRITE, TodoList, plan_from_todos
from tieline.tools.toolbox import READ_ONLY_TOOLS, WorkspaceToolbox

log = logging.getLogger("tieline.tools")

MODES = ("chat", "plan", "agent")
NOBODY_PRESENT = (
    "The user is not available to answer now. End your turn with the question in plain text: the user's next message "
    "will be the answer."
)

DecisionListener = Callable[[Subject, Verdict], None]

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


class GuardedTools:
    """Provides the tools of each turn. Decides whether a call may run, by rules or by asking a person.

    `note` is called when a call is allowed or denied without asking a person, unless a default rule decided.
    """

    def __init__(self, box: WorkspaceToolbox, policy: Policy, *, note: DecisionListener = lambda _, __: None) -> None:
        self.policy = policy
        self._box = box
        self._note = note

    @property
    def workspace(self) -> str:
        """The root folder of the workspace."""
        return self._box.workspace.root

    async def has_file(self, path: str) -> bool:
        """Return whether the path is a file in the workspace."""
        return await asyncio.to_thread(self._box.workspace.has_file, path)

    def open(self, mode: str) -> "TurnTools":
        """Return the tools for a turn in this mode. Raise BadRequest if there is no such mode."""
        if mode not in MODES:
            raise BadRequest(f"unknown mode `{mode[:40]}`: the modes are {', '.join(MODES)}", "model")
        return TurnTools(self, self._box, mode)

    async def authorize(self, call: ToolCall, host: Host) -> "Judgement | ToolRefusal":
        """Judge a call, and ask a person if the rules require it. Return the judgement, or a refusal.

        If the call is allowed, it must be run on the path `subject.path` of the judgement; see `Workspace.pinned`.
        """
        judgement = await self.judge(call)
        if judgement.verdict.decision == "ask":
            return await self.ask_person(call, judgement, host) or judgement
        self.report_decision(judgement)
        return judgement.refusal or judgement

    async def ask_person(self, call: ToolCall, judgement: "Judgement", host: Host) -> "ToolRefusal | None":
        """Ask the person for permission. Return the refusal, or None if the call is allowed."""
        preview = await self._box.preview(call, judgement.subject.path)
        if preview.problem is not None:
            return ToolRefusal(preview.problem)
        always = {f"{ALWAYS.id}-{n}" if n > 1 else ALWAYS.id: rule for n, rule in enumerate(judgement.suggested, 1)}
        # In a thread, because preparing a large preview takes a while.
        permission = await asyncio.to_thread(_permission, preview, call.arguments, always)
        permitted = await host.human.permit(permission)
        if permitted.option in always:
            await self.remember(always[permitted.option])
        elif permitted.option != ALLOW.id:
            return _denied(permitted, preview.change)
        return await self._check_unchanged(call, judgement)

    async def judge(self, call: ToolCall) -> "Judgement":
        """Judge a call by the rules, without asking a person."""
        return await asyncio.to_thread(self._judge, call)

    def report_decision(self, judgement: "Judgement") -> None:
        """Report a decision that was made without asking a person, unless a default rule made it."""
        if judgement.verdict.rule not in DEFAULTS:
            self._note(judgement.subject, judgement.verdict)

    async def remember(self, rule: Rule) -> None:
        """Add a permanent grant. If it cannot be saved, it applies only until the gateway stops."""
        try:
            await asyncio.to_thread(self.policy.remember, rule)
        except OSError as error:
            log.warning("could not save the grant `%s`; it applies only until the gateway stops: %s", rule, error)

    async def revoke(self, rule_id: str) -> bool:
        """Revoke a grant and return whether it existed. Raise GatewayError if the change cannot be saved."""
        try:
            return await asyncio.to_thread(self.policy.revoke, rule_id)
        except OSError as error:
            message = f"The rule is revoked until the gateway restarts, but the change cannot be saved: {error}."
            raise GatewayError("internal", message) from error

    async def grants(self) -> "list[GrantStatus]":
        """Return the rules that a person granted with "Always allow" in this workspace."""
        rules = await asyncio.to_thread(lambda: self.policy.remembered)
        return [GrantStatus(rule, grant_summary(rule), retirement_reason(rule)) for rule in rules]

    async def _check_unchanged(self, call: ToolCall, judgement: "Judgement") -> "ToolRefusal | None":
        """Return a refusal if the target of the call changed while the person was deciding, otherwise None."""
        now = await self.judge(call)
        if now.verdict.decision == "deny" or now.subject != judgement.subject:
            return ToolRefusal(
                f"The path of {call.name} has changed its target since the user was asked. Nothing was done.",
                "Not done: the path has changed its target since you were asked.",
            )
        return None

    def _judge(self, call: ToolCall) -> "Judgement":
        try:
            subject = self.policy.subject(call)
        except ToolFailed as error:
            return Judgement(Subject(tool=call.name), Verdict(decision="deny", reason=str(error)), problem=str(error))
        verdict = self.policy.judge(subject)
        return Judgement(subject, verdict, self.policy.suggest(subject) if verdict.decision == "ask" else ())


class GrantStatus(NamedTuple):
    """A granted rule, its description, and the reason why it no longer applies (empty if it still applies)."""

    rule: Rule
    text: str
    retired: str


class ToolRefusal(NamedTuple):
    """The reason why a call was not run, in separate texts for the model and for the person."""

    for_model: str
    for_person: str = ""
    """The text for the person; empty if it is the same as the text for the model."""
    change: Diff | None = None
    """The change to a file that was not made, if it is known."""


class Judgement(NamedTuple):
    """The subject of a call, the verdict of the rules, and the grants to offer to the person, the narrowest first."""

    subject: Subject
    verdict: Verdict
    suggested: tuple[Rule, ...] = ()
    problem: str = ""
    """The reason why the call cannot be judged: invalid arguments, or a path outside the workspace."""

    @property
    def refusal(self) -> ToolRefusal | None:
        """The refusal, if the rules deny the call."""
        if self.verdict.decision != "deny":
            return None
        return ToolRefusal(self.problem or _sentence(f"Not allowed: {self.verdict.reason}"))

    @property
    def is_free(self) -> bool:
        """Whether the call is allowed only because every call is allowed (autonomy `all`, or --yolo)."""
        return self.verdict.decision == "allow" and self.verdict.rule is None


class TurnTools:
    """The tools of one turn, its mode and its todo list."""

    def __init__(self, guard: GuardedTools, box: WorkspaceToolbox, mode: str) -> None:
        self.mode = mode
        self._guard = guard
        self._box = box
        # Each turn has its own list: two conversations in one workspace must not share one.
        self._todos = TodoList()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        if self.mode == "chat":
            return ()
        tools = self._box.specs
        if self.mode == "plan":
            tools = tuple(spec for spec in tools if spec.name in READ_ONLY_TOOLS)
        return (*tools, *planning.SPECS)

    def owns(self, name: str) -> bool:
        return self._box.owns(name) or planning.owns(name)

    def kind_of(self, call: ToolCall) -> str:
        return _KINDS.get(call.name, "other")

    async def execute(self, call: ToolCall, host: Host, report: Report = no_report) -> ToolResult:
        if not any(spec.name == call.name for spec in self.specs):
            missing = f"{call.name} is not available in {self.mode} mode."
            return _refused(call, ToolRefusal(f"{missing} {self._alternative()}", missing), report)
        judgement = await self._guard.judge(call)
        asks = judgement.verdict.decision == "ask"
        if not asks:
            self._guard.report_decision(judgement)
        if (refusal := judgement.refusal) is not None:
            return _refused(call, refusal, report)
        if planning.owns(call.name):
            return await self._execute_planning(call, host, report, is_free=judgement.is_free)
        if asks and (refusal := await self._guard.ask_person(call, judgement, host)) is not None:
            return _refused(call, refusal, report)
        if call.name in (TODO_READ.name, TODO_WRITE.name):
            return self._execute_todos(call, report)
        report(Progress())
        return await self._box.execute(call, report, place=judgement.subject.path)

    def _alternative(self) -> str:
        return "Propose your plan to the user with create_plan." if self.mode == "plan" else "Answer without it."

    def _execute_todos(self, call: ToolCall, report: Report) -> ToolResult:
        try:
            if call.name == TODO_READ.name:
                TODO_READ.parse(call)
                return _success(call, self._todos.read())
            text = self._todos.write(TODO_WRITE.parse(call))
        except ToolFailed as error:
            return _failure(call, str(error))
        report(plan_from_todos(self._todos.items))
        report(Progress(output=""))  # the plan already shows the list
        return _success(call, text)

    # ── Plans, questions, modes ──────────────────────────────────────────────────────────────────

    async def _execute_planning(self, call: ToolCall, host: Host, report: Report, *, is_free: bool) -> ToolResult:
        try:
            arguments = planning.parse(call)
        except BadArguments as error:
            return _failure(call, str(error))
        match arguments:
            case CreatePlan():
                # A user who chose plan mode wants to see the plan, even with --yolo.
                return await self._review(call, arguments, host, report, is_free=is_free and self.mode == "agent")
            case AskQuestion():
                return await self._question(call, arguments, host, report)
            case SwitchMode():
                return await self._switch_mode(call, arguments, host, report)

    async def _question(self, call: ToolCall, question: AskQuestion, host: Host, report: Report) -> ToolResult:
        if not host.human.is_present:
            return _refused(call, ToolRefusal(NOBODY_PRESENT, "Not asked: nobody was there to answer."), report)
        return _answered(call, await host.human.fill(_form(question)), report)

    async def _review(
        self, call: ToolCall, plan: CreatePlan, host: Host, report: Report, *, is_free: bool
    ) -> ToolResult:
        steps = plan_from_todos(plan.todos)
        if not is_free:
            reviewed = await host.human.review(PlanReview(title=plan.title, plan=plan.plan, steps=steps.entries))
            if not reviewed.approved:
                return _refused(call, _rejected(reviewed), report)
        self.mode = "agent"
        approved = "The plan is approved. Carry it out now; every tool is available."
        if not plan.todos:
            return _success(call, approved)
        # The approved steps become the todo list, so that the web page shows their progress.
        self._todos = TodoList(plan.todos)
        report(steps)
        return _success(call, f"{approved} Its steps are now your todo list: update their status with todo_write.")

    async def _switch_mode(self, call: ToolCall, wanted: SwitchMode, host: Host, report: Report) -> ToolResult:
        if wanted.mode == self.mode:
            return _success(call, f"The mode is already `{self.mode}`.")
        if MODES.index(wanted.mode) > MODES.index(self.mode):
            permitted = await host.human.permit(mode_switch(wanted.mode, wanted.reason, call.name))
            if permitted.option != ALLOW.id:
                for_model = f"The user wants to stay in {self.mode} mode. {permitted.reason}".strip()
                return _refused(call, ToolRefusal(for_model, _denial_text(permitted)), report)
        self.mode = wanted.mode
        return _success(call, f"The mode is now `{self.mode}`.")


def _permission(preview: CallPreview, arguments: str, always: Mapping[str, Rule]) -> Approval:
    """Return the approval to present to the person. `always` holds the grants to offer, by option id.

    A call that is not shown in full cannot be allowed permanently.
    """
    shown, hidden = within_limit((preview.command or "", preview.diff, preview.detail, visible(arguments)))
    command, diff, detail, given = shown
    grants = (Option(id=name, label=visible(grant_label(rule)), kind=ALWAYS.kind) for name, rule in always.items())
    return Approval(
        title=preview.title,
        tool=preview.tool,
        kind=preview.kind,
        path=preview.path,
        command=None if preview.command is None else command,
        diff=diff,
        detail=detail,
        input=given,
        hidden=hidden,
        risk=preview.risk,
        options=(ALLOW, DENY) if hidden else (ALLOW, *grants, DENY),
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
        text = ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else _answer_text(answer)
        return _success(call, f"The user answered: {text}")
    reason = filled.reason or ("The user declined to answer." if filled.action == "decline" else "There is no answer.")
    for_model = f"{_sentence(reason)} Continue without it, or end your turn with the question in plain text."
    return _refused(call, ToolRefusal(for_model, filled.reason or "Not answered."), report)


def _denied(permitted: ApprovalAnswer, change: Diff | None) -> ToolRefusal:
    reason = f" {_sentence(permitted.reason)}" if permitted.reason else ""
    for_model = f"The user did not allow this.{reason} Do not try it again in another way; ask what to do."
    return ToolRefusal(for_model, _denial_text(permitted), change)


def _denial_text(permitted: ApprovalAnswer) -> str:
    """Return the text that informs the person that a call was denied.

    It includes the reason that the person gave, or the reason why there was no answer.
    """
    if permitted.option is None:
        return f"Not allowed. {_sentence(permitted.reason)}" if permitted.reason else "Not allowed."
    return f"Denied: {_sentence(permitted.reason)}" if permitted.reason else "Denied."


def _rejected(reviewed: ReviewAnswer) -> ToolRefusal:
    for_model = f"The plan was not approved. {reviewed.feedback or 'The user gave no reason.'}"
    if reviewed.is_unanswered or not reviewed.feedback:
        return ToolRefusal(for_model, f"The plan was not approved. {reviewed.feedback}".strip())
    return ToolRefusal(for_model, f"Changes requested: {reviewed.feedback}")


def _sentence(text: str) -> str:
    """Return the text with a full stop, unless it already ends with a punctuation mark."""
    trimmed = text.rstrip()
    return trimmed if trimmed.endswith((".", "!", "?", "…")) else f"{trimmed}."


def _refused(call: ToolCall, refusal: ToolRefusal, report: Report) -> ToolResult:
    changes = (refusal.change,) if refusal.change is not None else ()
    report(Progress(output=refusal.for_person or refusal.for_model, diffs=changes))
    return _failure(call, refusal.for_model)


def _answer_text(answer: Any) -> str:
    return ("yes" if answer else "no") if isinstance(answer, bool) else str(answer)


def _success(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),))


def _failure(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.id, content=(Text(text=text),), is_error=True)
