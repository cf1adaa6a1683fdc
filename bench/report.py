"""Formats rows as Markdown tables, and compares them with floors (required values) and goals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from acp_runs import AGENT_RUNS
from peers import CURSOR_RUNS
from scenarios import Row
from teams import FORWARDED, POSTGRES, SQLITE

SUBJECT = "tieline"
BASELINE = "nginx"
SHARED_CORE = 0.15
"""The share of a server's core that other processes may use before the report mentions it."""


@dataclass(frozen=True)
class Floor:
    """A required value for a row.

    In a row with CPU times, nginx's CPU time divided by Tieline's must be at least `bound`. In any other row, Tieline's
    value must be at most `bound`.
    """

    row: str
    bound: float
    by_rate: bool = False
    """Whether to compare rates with nginx instead of CPU times: Tieline's divided by nginx's."""
    against: str = ""
    """Another row: then the floor is its CPU time divided by that of this row, both Tieline's."""


FLOORS: tuple[Floor, ...] = (
    Floor("stream", 0.40),
    Floor("plain", 0.12),
    Floor("agent chat", 0.18),
    Floor("agent messages", 0.25),
    Floor("agent openai", 0.25),
    Floor("stream messages", 0.45),
    Floor("stream openai", 0.45),
    Floor("stream responses", 0.80, against="stream"),
    Floor("stream to responses", 0.80, against="stream openai"),
    Floor("turns websocket", 0.95, against="turns http"),
    Floor("first messages", 15.0),
    Floor("first openai", 15.0),
    Floor("first chat", 20.0),
    *(Floor(f"growing {route} 1.4 MB", 8.0) for route in ("messages", "openai", "chat")),
    Floor("growing messages 4 MB", 8.0),
    Floor("growing openai 4 MB", 8.0),
    Floor("growing chat 4 MB", 20.0),
    *(Floor(f"memory {route}", 52.0) for route in ("messages", "openai", "chat")),
    Floor("growth", 1.0),
    Floor("idle", 45.0),
    Floor("start", 0.4),
    Floor("ttfb", 2.0),
    Floor("paced", 0.50, by_rate=True),
)


@dataclass(frozen=True)
class Goal:
    """A desired bound on the value of `subject` in a row, or on its ratio to the value of the server `against`."""

    row: str
    against: str | None
    at_least: bool
    bound: float
    subject: str


def _for_each_transport(row: str, bound: float, *, at_least: bool = False) -> tuple[Goal, ...]:
    return tuple(Goal(row, None, at_least, bound, peer.name) for peer in CURSOR_RUNS)


CURSOR_GOALS: tuple[Goal, ...] = (
    Goal("runs", SUBJECT, True, 0.30, "tieline-http1"),
    Goal("runs", SUBJECT, True, 0.10, "tieline-http2"),
    *_for_each_transport("loop", 1.0),
    *_for_each_transport("parked memory", 100.0),
    *_for_each_transport("parked beats", 95.0, at_least=True),
    *_for_each_transport("parked first byte", 2.0),
)

KEY_GOALS: tuple[Goal, ...] = (
    *(Goal(row, SUBJECT, True, 0.9, store) for row in ("keyed stream", "keyed plain") for store in (SQLITE, POSTGRES)),
    Goal("added by forwarding", None, False, 2.0, FORWARDED),
)

AGENT_GOALS: tuple[Goal, ...] = (
    Goal("acp added", None, False, 5.0, AGENT_RUNS.name),
    Goal("acp idle", None, False, 50.0, AGENT_RUNS.name),
)


def number(value: float) -> str:
    """Format a value with about three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def ratio_text(value: float) -> str:
    return f"{number(value)} ×"


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
    """Return a table with the median value and CPU time of every scenario and server."""
    lines = [[f"{row.title}, {row.unit}", *(_cell(row, name, unavailable) for name in titles)] for row in rows]
    for row in rows:
        if row.cpu_us:
            samples = [row.cpu_us.get(name) for name in titles]
            cells = [number(median(values)) if values else "–" for values in samples]
            lines.append([f"CPU per {row.cpu_unit}: {row.title}, µs", *cells])
    return _table(["", *titles.values()], lines)


def floors(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Return a table with every floor, the measured value, and the values of other gateways relative to Tieline's."""
    by_key = {row.key: row for row in rows}
    others = [name for name in titles if name not in (SUBJECT, BASELINE)]
    head = ["", "floor", "measured", "", *(f"{titles[name]} ÷ Tieline" for name in others)]
    measured = [floor for floor in FLOORS if floor.row in by_key]
    lines = [_floor_line(floor, by_key[floor.row], by_key.get(floor.against), others) for floor in measured]
    return _table(head, lines)


def _floor_line(floor: Floor, row: Row, against: Row | None, others: Sequence[str]) -> list[str]:
    is_ratio = bool(row.cpu_unit)
    if against is not None:
        value = _between_rows(row, against)
    elif floor.by_rate:
        value = row.ratio(SUBJECT, BASELINE)
    else:
        value = row.cpu_ratio(SUBJECT, BASELINE) if is_ratio else row.median(SUBJECT)
    bound = f"≥ {floor.bound:.2f} ×" if is_ratio else f"≤ {floor.bound:g} {row.unit}"
    lead = [_lead(row, name) for name in others]
    if value is None:
        return [row.title, bound, "not measured", "", *lead]
    is_good = value >= floor.bound if is_ratio else value <= floor.bound
    if row.errors.get(SUBJECT):
        is_good = False
    shown = ratio_text(value) if is_ratio else f"{number(value)} {row.unit}"
    return [row.title, bound, shown, "" if is_good else "**missed**", *lead]


def _between_rows(row: Row, against: Row) -> float | None:
    """Return Tieline's CPU time in another row divided by that in this one, as the median over all rounds."""
    pairs = zip(row.cpu_us.get(SUBJECT, []), against.cpu_us.get(SUBJECT, []), strict=False)
    ratios = [other / own for own, other in pairs]
    return median(ratios) if ratios else None


def _lead(row: Row, name: str) -> str:
    """Return another gateway's CPU time or value divided by Tieline's, in bold if Tieline is not better."""
    value = row.cpu_ratio(SUBJECT, name) if row.cpu_unit else row.ratio(name, SUBJECT)
    if value is None:
        return "–"
    return ratio_text(value) if value > 1 else f"**{ratio_text(value)}**"


def cursor_goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Return a table with the goals for Cursor runs and the measured values."""
    return _goals("Cursor runs", CURSOR_GOALS, rows, titles)


def key_goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Return a table with the goals for teams and the measured values."""
    return _goals("teams", KEY_GOALS, rows, titles)


def agent_goals(rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    """Return a table with the goals for coding agents and the measured values."""
    return _goals("Coding agents", AGENT_GOALS, rows, titles)


def _goals(head: str, goals: Sequence[Goal], rows: Sequence[Row], titles: Mapping[str, str]) -> str:
    by_key = {row.key: row for row in rows}
    lines = [_goal_line(goal, by_key[goal.row], titles) for goal in goals if goal.row in by_key]
    return _table([head, "goal", "measured", ""], lines)


def _goal_line(goal: Goal, row: Row, titles: Mapping[str, str]) -> list[str]:
    title = f"{row.title}, {titles.get(goal.subject, goal.subject)}"
    sign, unit = "≥" if goal.at_least else "≤", "×" if goal.against else row.unit
    if goal.against:
        title += f", against the {titles.get(goal.against, goal.against)}"
    value = row.ratio(goal.subject, goal.against) if goal.against else row.median(goal.subject)
    bound = f"{sign} {goal.bound:g} {unit}"
    if value is None:
        return [title, bound, "not measured", ""]
    is_good = value >= goal.bound if goal.at_least else value <= goal.bound
    if row.errors.get(goal.subject):
        is_good = False
    return [title, bound, f"{number(value)} {unit}", "" if is_good else "**missed**"]


def remarks(rows: Sequence[Row], titles: Mapping[str, str], unavailable: Mapping[str, str]) -> list[str]:
    """Return remarks about missing servers, errors, and servers that had to share their core."""
    lines = [f"{titles[name]}: {reason}" for name, reason in unavailable.items() if name in titles]
    shares: dict[str, float] = {}
    for row in rows:
        for name, text in row.first_error.items():
            lines.append(f"{titles[name]}, {row.title}: {row.errors[name]:,} errors, the first: {text}")
        for name, others in row.others.items():
            shares[name] = max(shares.get(name, 0.0), median(others))
    for name, share in shares.items():
        if share > SHARED_CORE:
            text = f"other processes used up to {share:.0%} of its core"
            lines.append(f"{titles[name]}: {text}, which affects CPU time less than other values")
    return lines
