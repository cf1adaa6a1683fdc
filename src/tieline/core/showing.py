"""What an agent does by itself, made visible to clients that know no such thing: as thinking, as text, or not at all.

An HTTP client must never take an agent's own tool calls for calls it should run (it would run them a second time). So
they become lines of a part of their own: thinking for clients that fold it away, text for those that show nothing else.
Some clients write parts one behind the other without a break, so a part of ours keeps its distance.
"""

from typing import Literal

from tieline.core.splice import Splice
from tieline.model.content import Part, Text, Thinking
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Status,
)

Style = Literal["reasoning", "text", "hidden"]

MOST_OUTPUT = 400
"""So much of what came of an activity is shown."""
MARKS: dict[Status, str] = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}


class Showing:
    """Puts the activities of one leg between its parts."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._splice = Splice()
        self._lines: list[str] | None = None
        """The part of ours that is open."""
        self._is_inside = False
        """Whether a part of the model is open; what happens meanwhile waits."""
        self._waiting: list[str] = []
        self._has_ended: dict[str, bool] = {}
        self._latest = ""
        """The activity that the last line was about."""
        self._plan = ""
        self._before: Part | None = None
        """The model's part that came last."""

    def apply(self, batch: Batch) -> list[Event]:
        """The batch as the client is to have it."""
        out: list[Event] = []
        for event in batch:
            match event:
                case Activity():
                    self._say(out, self._activity(event))
                case Plan():
                    self._say(out, self._planned(event))
                case PartStart():
                    self._begin(out, event)
                case PartDelta():
                    out.append(self._splice.renumber(event))
                case PartEnd():
                    self._end(out, event)
                case Finished() | Failed():
                    self._close(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _begin(self, out: list[Event], start: PartStart) -> None:
        if self._lines is not None and self._style == "text" and isinstance(start.part, Text):
            self._write(out, "\n")
        self._close(out)
        self._is_inside = True
        self._latest = ""
        out.append(self._splice.renumber(start))

    def _end(self, out: list[Event], end: PartEnd) -> None:
        out.append(self._splice.renumber(end))
        self._is_inside = False
        self._before = end.part
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._say(out, line)

    # ── A part of ours ───────────────────────────────────────────────────────────────────────────

    def _say(self, out: list[Event], line: str) -> None:
        if not line or self._style == "hidden":
            return
        if self._is_inside:
            self._waiting.append(line)
            return
        if self._lines is None:
            self._lines = []
            out.append(PartStart(index=self._splice.next_index, part=self._part("")))
            line = self._distance() + line
        self._write(out, line)

    def _write(self, out: list[Event], text: str) -> None:
        if self._lines is not None:
            self._lines.append(text)
            out.append(PartDelta(index=self._splice.next_index, text=text))

    def _close(self, out: list[Event]) -> None:
        if self._lines is not None:
            whole = self._part("".join(self._lines))
            out.append(PartEnd(index=self._splice.place(), part=whole))
            self._lines = None
            self._before = whole

    def _part(self, text: str) -> Part:
        return Thinking(text=text) if self._style == "reasoning" else Text(text=text)

    def _distance(self) -> str:
        before = self._before
        if type(before) is not type(self._part("")) or not isinstance(before, Text | Thinking) or not before.text:
            return ""
        return "" if before.text.endswith("\n") else "\n\n"

    # ── Words ────────────────────────────────────────────────────────────────────────────────────

    def _activity(self, activity: Activity) -> str:
        """A line when it begins, and what came of it when it ends; what comes in between says nothing new."""
        is_over = activity.status in ("completed", "failed")
        known = self._has_ended.get(activity.id)
        if known or (known is False and not is_over):
            return ""
        is_told = known is False and self._latest == activity.id
        self._has_ended[activity.id] = is_over
        self._latest = activity.id
        title = " ".join(activity.title.split())
        if not is_over:
            return f"{MARKS['in_progress']} {title}\n"
        if not is_told:
            return f"{MARKS[activity.status]} {title}\n{_outcome(activity)}"
        return (f"{MARKS['failed']} failed\n" if activity.status == "failed" else "") + _outcome(activity)

    def _planned(self, plan: Plan) -> str:
        text = "".join(f"{MARKS[entry.status]} {' '.join(entry.content.split())}\n" for entry in plan.entries)
        if text == self._plan:
            return ""
        self._plan = text
        self._latest = ""
        return f"Plan:\n{text}" if text else ""


def _outcome(activity: Activity) -> str:
    shown = activity.output.strip()
    if len(shown) > MOST_OUTPUT:
        shown = f"{shown[:MOST_OUTPUT]} …"
    changed = "".join(f"  changed {diff.path}\n" for diff in activity.diffs)
    return changed + "".join(f"  {line}\n" for line in shown.splitlines())
