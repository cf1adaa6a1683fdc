"""Turns rows into Markdown tables, with the goals beside what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from acp_runs import AGENT_RUNS
from peers import CURSOR_RUNS
from scenarios import Row

SUBJECT = "tieline"
_GOAL_HEAD = ("against", "goal", "measured", "", "by CPU time")


@dataclass(frozen=True)
class Goal:
    """A bound on the subject's figure, or on its ratio to a peer's figure."""

    row: str
    against: str | None
    at_least: bool
    bound: float
    text: str
    subject: str = SUBJECT
    by_cpu: bool = False
    """Judged by processor time: the upstream has more to do there than the fastest of the servers."""


GOALS: tuple[Goal, ...] = (
    Goal("stream", "nginx", True, 0.30, "≥ 0.30 ×"),
    Goal("stream", "litellm", True, 140, "≥ 140 ×"),
    Goal("stream", "portkey", True, 8, "≥ 8 ×"),
    Goal("flow", "nginx", True, 0.30, "≥ 0.30 ×, by CPU time", by_cpu=True),
    Goal("flow", "litellm", True, 140, "≥ 140 ×, by CPU time", by_cpu=True),
    Goal("flow", "portkey", True, 8, "≥ 8 ×, by CPU time", by_cpu=True),
    Goal("plain", "nginx", True, 0.20, "≥ 0.20 ×"),
    Goal("plain", "litellm", True, 80, "≥ 80 ×"),
    Goal("plain", "portkey", True, 10, "≥ 10 ×"),
    Goal("agent", "nginx", True, 0.20, "≥ 0.20 ×"),
    Goal("agent", "litellm", True, 55, "≥ 55 ×"),
    Goal("agent", "portkey", True, 5, "≥ 5 ×"),
    Goal("paced", "nginx", True, 0.5, "≥ 0.50 ×"),
    Goal("paced", "portkey", True, 2.5, "≥ 2.5 ×"),
    Goal("ttfb", None, False, 2.0, "≤ 2 ms"),
    Goal("ttfb", "litellm", False, 1 / 25, "≤ 1/25"),
    Goal("ttfb", "portkey", False, 1 / 14, "≤ 1/14"),
    Goal("start", "litellm", False, 1 / 10, "≤ 1/10"),
    Goal("start", "portkey", False, 1.0, "≤ 1 ×"),
    Goal("idle", None, False, 60.0, "≤ 60 MiB"),
    Goal("idle", "litellm", False, 1 / 5, "≤ 1/5"),
    Goal("idle", "portkey", False, 0.75, "≤ 0.75 ×"),
    Goal("growth", None, False, 1.0, "flat (≤ 1 MiB)"),
)


def _for_each_transport(row: str, at_least: bool, bound: float, text: str) -> tuple[Goal, ...]:
    return tuple(Goal(row, None, at_least, bound, text, peer.name) for peer in CURSOR_RUNS)


CURSOR_GOALS: tuple[Goal, ...] = (
    Goal("runs", SUBJECT, True, 0.30, "≥ 0.30 ×", "tieline-http1"),
    Goal("runs", SUBJECT, True, 0.10, "≥ 0.10 ×", "tieline-http2"),
    *_for_each_transport("loop", False, 1.0, "1 per turn"),
    *_for_each_transport("parked memory", False, 100.0, "≤ 100 KiB"),
    *_for_each_transport("parked beats", True, 95.0, "≥ 95 %"),
    *_for_each_transport("parked first byte", False, 2.0, "≤ 2 ×"),
)

AGENT_GOALS: tuple[Goal, ...] = (
    Goal("acp added", None, False, 5.0, "≤ 5 ms", AGENT_RUNS.name),
    Goal("acp idle", None, False, 50.0, "≤ 50 KiB", AGENT_RUNS.name),
)


def number(value: float) -> str:
    """Three significant digits or so, with thousands separated."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def ratio_text(value: float) -> str:
    return f"1/{1 / value:.0f}" if 0 < value < 0.1 else f"{number(value)} ×"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *lines])


def _cell(row: Row, name: str, unavailable: Mapping[str, str]) -> str:
    if name in unavailable:
        return unavailable[name].partition(":")[0]
    value = row.median(name)
    if value is None:
        return "–"
    errors = row.errors.get(name, 0)
    return number(value) + (f" ({errors:,} errors)" if errors else "")


def figures(rows: Sequence[Row], titles: Mapping[str, str], unavailable: Mapping[str, str]) -> str:
    """The median of every scenario and server; `titles` are those of the servers by their names."""
    lines = [[f"{row.title}, {row.unit}", *(_cell(row, name, unavailable) for name in titles)] for row in rows]
    for row in rows:
        if row.cpu_us:
            samples = [row.cpu_us.get(name) for name in titles]
            cells = [number(median(values)) if values else "–" for values in samples]
            lines.append([f"CPU per {row.cpu_unit}: {row.title}, µs", *cells])
    return _table(["", *titles.values()], lines)


def _goal_line(goal: Goal, row: Row | None, titles: Mapping[str, str]) -> list[str]:
    against = titles.get(goal.against or "", goal.against or "")
    title = row.title if row else goal.row
    if goal.subject != SUBJECT:
        title += f", {titles.get(goal.subject, goal.subject)}"
    value = None
    if row is not None:
        value = row.ratio(goal.subject, goal.against) if goal.against else row.median(goal.subject)
    if value is None or row is None:
        return [title, against or "–", goal.text, "not measured", "–", "–"]
    shown = ratio_text(value) if goal.against else f"{number(value)} {row.unit}"
    by_cpu = row.cpu_ratio(goal.subject, goal.against) if goal.against else None
    judged = (by_cpu or 0.0) if goal.by_cpu else value
    good = judged >= goal.bound if goal.at_least else judged <= goal.bound
    if row.errors.get(goal.subject):
        good = False
    cpu_shown = ratio_text(by_cpu) if by_cpu is not None else "–"
    return [title, against or "–", goal.text, shown, "reached" if good else "**not reached**", cpu_shown]


def goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Every goal with what was measured; a figure with errors never reaches its goal."""
    by_key = {row.key: row for row in rows}
    shown = [goal for goal in GOALS if goal.against is None or goal.against in titles]
    lines = [_goal_line(goal, by_key.get(goal.row), titles) for goal in shown]
    paced = by_key.get("paced")
    if paced is not None and SUBJECT in paced.samples:
        errors = paced.errors.get(SUBJECT, 0)
        state = "**not reached**" if errors else "reached"
        lines.append([paced.title, "–", "no error", f"{errors:,} errors", state, "–"])
    return _table(["Tieline", *_GOAL_HEAD], lines)


def cursor_goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """The same for agent runs."""
    return _goals_of("Cursor runs", CURSOR_GOALS, rows, titles)


def agent_goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """The same for coding agents."""
    return _goals_of("Coding agents", AGENT_GOALS, rows, titles)


def _goals_of(head: str, goals: Sequence[Goal], rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    by_key = {row.key: row for row in rows}
    return _table([head, *_GOAL_HEAD], [_goal_line(goal, by_key.get(goal.row), titles) for goal in goals])


def remarks(rows: Sequence[Row], titles: Mapping[str, str], unavailable: Mapping[str, str]) -> list[str]:
    """What a reader must know to judge the figures: missing peers, errors, rows where a server was not the limit."""
    lines = [f"{titles[name]}: {reason}" for name, reason in unavailable.items()]
    for row in rows:
        for name, text in row.first_error.items():
            lines.append(f"{titles[name]}, {row.title}: {row.errors[name]:,} errors, the first: {text}")
        if row.key == "paced":
            continue  # there the upstream sets the pace
        for name, shares in row.busy.items():
            share, others = median(shares), median(row.others[name])
            if row.key == "acp worst":  # there the agent sets the pace, and a core that is not free adds to the age
                if others > 0.1:
                    lines.append(f"{titles[name]}, {row.title}: others had {others:.0%} of its core, which adds to it")
            elif share < 0.85:
                why = "others used it" if share + others > 0.85 else "it was not the limit"
                text = f"had {share:.0%} of its core, others {others:.0%}: {why}"
                lines.append(f"{titles[name]}, {row.title}: {text}; its ratio by CPU time says more")
    return lines
