"""Renderables for the parts of a conversation: tool calls, changes, plans, endings and inbox items."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tieline.cli.chat import markdown
from tieline.cli.chat.call_title import describe_arguments, parse_title
from tieline.cli.chat.layout import Indented, LayoutTail
from tieline.cli.chat.safe_text import one_line, output, prose
from tieline.cli.inbox import formatting
from tieline.cli.inbox.formatting import MARKS
from tieline.model.content import ToolCall
from tieline.model.events import Diff, Failed, Finished, Plan, PlanEntry, StopReason, Usage
from tieline.model.inbox import Approval, Field, InboxItem, PlanReview, Question
from tieline.model.session import TimedActivity
from tieline.tools.diffs import unified_diff
from tieline.tools.invisible_text import visible

MAX_OUTPUT_LINES = 8
MAX_DIFF_LINES = 40
MAX_SUBJECT = 160
INSTANT = 0.05
"""Durations shorter than this, in seconds, are not shown."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8

STATUS_STYLES = {"pending": "dim", "in_progress": "cyan", "completed": "green", "failed": "red"}
ENDINGS = {
    StopReason.MAX_TOKENS: "Cut off: the answer reached its length limit.",
    StopReason.CONTEXT_FULL: "Cut off: the model's context window is full.",
    StopReason.REFUSAL: "The model declined to answer.",
    StopReason.PAUSED: "Paused by the upstream.",
    StopReason.CANCELLED: "Stopped.",
}


def duration(seconds: float) -> str:
    """Return a duration as text, such as `1 min 5 s`, or an empty string if it is too short to matter."""
    if seconds < INSTANT:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def spinner(now: float) -> str:
    """Return the current frame of the spinner."""
    return SPINNER[int(now * FRAMES_PER_SECOND) % len(SPINNER)]


# ── Tool calls ───────────────────────────────────────────────────────────────────────────────────


def tool_card(timed: TimedActivity, now: float, *, is_over: bool) -> list[RenderableType]:
    """Return the rows of a tool call's card. `is_over` says whether the answer, and with it the call, has ended."""
    activity = timed.activity
    is_running = activity.status in ("pending", "in_progress") and not is_over
    rows: list[RenderableType] = [_head(timed, now, is_over=is_over)]
    rows += [Indented(body) for diff in activity.diffs for body in diff_rows(diff)]
    is_telling = activity.kind == "execute" or activity.status == "failed" or is_running
    if is_telling and not (activity.diffs and activity.status == "completed"):
        text = activity.output
        if activity.exit_code is not None:
            text = text.removesuffix(f"(exit code: {activity.exit_code})")  # the head of the card shows it
        rows += [Indented(line) for line in output_tail(text)]
    return rows


def _head(timed: TimedActivity, now: float, *, is_over: bool) -> Text:
    activity = timed.activity
    status = activity.status
    is_stopped = is_over and status in ("pending", "in_progress")
    if is_stopped:
        mark, style = "■", "dim"
    elif status == "in_progress":
        mark, style = spinner(now), STATUS_STYLES[status]
    else:
        mark, style = MARKS[status], STATUS_STYLES[status]
    title = parse_title(activity.title)
    head = Text.assemble((mark, style), " ", (title.verb, "bold"))
    if title.subject:
        subject = title.subject if len(title.subject) <= MAX_SUBJECT else f"{title.subject[:MAX_SUBJECT]}…"
        head.append(f" {subject}")
    head.append("".join(f"  {fact}" for fact in _facts(timed, now, is_stopped=is_stopped)), style="dim")
    return head


def _facts(timed: TimedActivity, now: float, *, is_stopped: bool) -> Iterator[str]:
    activity = timed.activity
    if is_stopped:
        yield "stopped"
        return
    if activity.exit_code:
        yield f"exit {activity.exit_code}"
    if activity.status == "pending":
        yield "waiting"
    elif activity.status == "in_progress":
        length = duration(int(now - timed.began))
        if length:
            yield length
    elif timed.ended is not None and (length := duration(timed.ended - timed.began)):
        yield length


def output_tail(text: str, most: int = MAX_OUTPUT_LINES) -> list[Text]:
    """Return the last lines of a program's output."""
    lines = output(text[-most * 2000 :]).rstrip("\n").split("\n") if text.strip() else []
    hidden = text.rstrip("\n").count("\n") + 1 - most if lines else 0
    shown = [Text(line, style="dim") for line in lines[-most:]]
    return [_more_lines(hidden), *shown] if hidden > 0 else shown


def _more_lines(count: int) -> Text:
    return Text(f"… {count} more line{'' if count == 1 else 's'}", style="dim italic")


def client_call(call: ToolCall) -> RenderableType:
    """Return the card of a call that the model made but that is not run here."""
    subject = one_line(describe_arguments(call.arguments), MAX_SUBJECT) if call.arguments else ""
    return Text.assemble(("○", "dim"), " ", (one_line(call.name, 100), "bold"), " ", subject)


def diff_rows(diff: Diff) -> Iterator[RenderableType]:
    """Yield the path of a file with its numbers of added and removed lines, then the lines of the diff."""
    text = unified_diff(diff.old or "", diff.new, diff.path, is_new=diff.old is None)
    lines = text.splitlines()[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    yield Text.assemble(one_line(diff.path, MAX_SUBJECT), (f"  +{added} -{removed}", "dim"))
    yield from coloured_diff([line for line in lines if not line.startswith("@@")], MAX_DIFF_LINES)


def coloured_diff(lines: Sequence[str], most: int | None = None) -> Iterator[Text]:
    """Yield lines of a diff: added ones green, removed ones red. `most` limits their number."""
    for line in lines[:most]:
        yield Text(visible(line), style=_diff_style(line))
    if most is not None and len(lines) > most:
        yield _more_lines(len(lines) - most)


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")


# ── Plans, thinking and endings ──────────────────────────────────────────────────────────────────


def plan_steps(entries: Iterable[PlanEntry]) -> list[RenderableType]:
    """Return the steps of a plan with their status."""
    return [
        Text.assemble(
            (MARKS[entry.status], STATUS_STYLES[entry.status]),
            " ",
            (one_line(entry.content, MAX_SUBJECT), "dim" if entry.status in ("completed", "failed") else ""),
        )
        for entry in entries
    ]


def plan_card(plan: Plan) -> RenderableType:
    """Return a plan with its progress."""
    done = sum(entry.status in ("completed", "failed") for entry in plan.entries)
    head = Text.assemble(("Plan", "bold"), (f"  {done} of {len(plan.entries)}", "dim"))
    return Group(head, *(Indented(step) for step in plan_steps(plan.entries)))


def decided_plan(timed: TimedActivity) -> RenderableType:
    """Return a plan that a person has reviewed, and the decision."""
    activity = timed.activity
    mark, style = MARKS[activity.status], STATUS_STYLES[activity.status]
    return Text.assemble(
        (mark, style),
        " ",
        ("Plan", "bold"),
        f" {one_line(activity.title, MAX_SUBJECT)}  ",
        (
            one_line(activity.output, MAX_SUBJECT),
            "dim",
        ),
    )


def live_thinking(text: str, seconds: float, width: int) -> RenderableType:
    """Return thinking in progress: how long it has taken so far, and its last lines."""
    tail = LayoutTail(Text(prose(text[-1000:]).strip(), style="dim italic"), 3)
    head = Text(f"✻ Thinking… {duration(int(seconds))}".rstrip(), style="dim")
    return Group(head, Indented(tail)) if text.strip() and width > 20 else head


def thought(seconds: float, *, is_hidden: bool = False) -> RenderableType:
    """Return the line that stands for finished thinking."""
    if is_hidden:
        return Text("✻ Thinking (hidden by the provider)", style="dim")
    length = duration(seconds) if seconds >= 1 else ""
    return Text(f"✻ Thought for {length}" if length else "✻ Thought", style="dim")


def ending_line(ending: Finished | Failed | None) -> RenderableType | None:
    """Return a line that says how an answer ended, or None if it ended normally."""
    match ending:
        case Failed(kind="cancelled"):
            return Text("■ Stopped.", style="dim")
        case Failed(message=message, retry_after=wait):
            more = f" Try again in {duration(wait)}." if wait else ""
            return Text.assemble(("✗ ", "red"), f"{prose(message)}{more}")
        case Finished(reason=reason, detail=detail) if reason in ENDINGS:
            return Text(f"■ {ENDINGS[reason]} {prose(detail or '')}".rstrip(), style="dim")
        case _:
            return None


def footer(model: str | None, usage: Usage | None, seconds: float) -> Text:
    """Return the line below an answer: the model, the tokens and the duration."""
    facts = [one_line(model, 80)] if model else []
    if usage is not None and (usage.prompt or usage.output):
        facts.append(f"{_tokens(usage.prompt)} in, {_tokens(usage.output)} out")
    if length := duration(seconds):
        facts.append(length)
    return Text(" · ".join(facts), style="dim")


def _tokens(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


# ── Inbox items ──────────────────────────────────────────────────────────────────────────────────


def item_card(content: InboxItem) -> RenderableType:
    """Return everything that an inbox item shows. A person must see all of it before answering."""
    rows: list[RenderableType] = [Text.assemble(("? ", "bold yellow"), (_headline(content), "bold"))]
    if isinstance(content, Approval):
        if content.risk:
            rows.append(Indented(Text(f"! {prose(content.risk)}", style="bold red")))
        lines = list(formatting.details(content))
        if content.command is None and not content.diff:
            lines += formatting.arguments(content)
        rows += [Indented(line) for line in coloured_diff(lines)]
        rows += [Indented(line) for line in _lasting(content)]
    elif isinstance(content, PlanReview):
        rows += _review_rows(content)
    elif content.url:
        rows.append(Indented(Text(f"open {visible(content.url)}")))
    return Group(*rows)


def _headline(content: InboxItem) -> str:
    match content:
        case Approval(command=str()):
            return "Run this command?"  # the command follows in full, while the title may be shortened
        case Question():
            return prose(content.message).replace("\n", "\n  ")
        case _:
            return one_line(formatting.title_of(content), MAX_SUBJECT)


def _review_rows(content: PlanReview) -> Iterator[RenderableType]:
    if content.plan:
        yield Text()
        yield Indented(markdown.render(content.plan))
        yield Text()
    for step in plan_steps(content.steps):
        yield Indented(step)
    for line in formatting.review_notes(content):
        yield Indented(Text(line))


def _lasting(content: Approval) -> Iterator[Text]:
    """Yield a description of each lasting permission that can be granted. The key `a` grants the first one."""
    options = [option for option in content.options if option.kind == "allow_always"]
    for number, option in enumerate(options):
        key = "a" if number == 0 else one_line(option.id, 100)
        yield Text(f"{key}: {formatting.about(option)}", style="dim")


def field_card(field: Field, message: str) -> RenderableType:
    """Return the card of a field of the question `message`, with its options numbered."""
    rows: list[RenderableType] = []
    if field.title and field.title != message:
        rows.append(Text(prose(field.title), style="bold"))
    if field.description:
        rows.append(Text(prose(field.description)))
    for number, option in enumerate(field.options, 1):
        about = f": {prose(option.description)}" if option.description else ""
        rows.append(Text.assemble((f"{number} ", "dim"), f"{prose(option.label or option.id)}{about}"))
    return Indented(Group(*rows))
