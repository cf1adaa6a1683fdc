"""What an agent does by itself, made visible to clients that know no such thing: as thinking, as text, or not at all.

An HTTP client must never take an agent's own tool calls for calls it should run (it would run them a second time). So
they become lines of a part of their own: thinking for clients that fold it away, text for those that show nothing else.
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
        self._begun: dict[str, str] = {}
        self._plan = ""

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
                    self._close(out)
                    self._is_inside = True
                    out.append(self._splice.renumber(event))
                case PartDelta():
                    out.append(self._splice.renumber(event))
                case PartEnd():
                    out.append(self._splice.renumber(event))
                    self._is_inside = False
                    for line in self._waiting:
                        self._say(out, line)
                    self._waiting.clear()
                case Finished() | Failed():
                    self._close(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    def _say(self, out: list[Event], line: str) -> None:
        if not line or self._style == "hidden":
            return
        if self._is_inside:
            self._waiting.append(line)
            return
        if self._lines is None:
            self._lines = []
            out.append(PartStart(index=self._splice.next_index, part=self._part("")))
        self._lines.append(line)
        out.append(PartDelta(index=self._splice.next_index, text=line))

    def _close(self, out: list[Event]) -> None:
        if self._lines is not None:
            whole = self._part("".join(self._lines))
            out.append(PartEnd(index=self._splice.place(), part=whole))
            self._lines = None

    def _part(self, text: str) -> Part:
        return Thinking(text=text) if self._style == "reasoning" else Text(text=text)

    def _activity(self, activity: Activity) -> str:
        """A line when it begins and one when it ends; what comes in between says nothing new."""
        known = self._begun.get(activity.id)
        has_ended = activity.status in ("completed", "failed")
        if has_ended:
            if known == "ended":
                return ""
            self._begun[activity.id] = "ended"
            begun = "" if known else f"{MARKS['in_progress']} {activity.title}\n"
            return begun + _ending(activity)
        if known:
            return ""
        self._begun[activity.id] = "begun"
        return f"{MARKS['in_progress']} {activity.title}\n"

    def _planned(self, plan: Plan) -> str:
        text = "".join(f"{MARKS[entry.status]} {entry.content}\n" for entry in plan.entries)
        if text == self._plan:
            return ""
        self._plan = text
        return f"Plan:\n{text}" if text else ""


def _ending(activity: Activity) -> str:
    shown = activity.output.strip()
    if len(shown) > MOST_OUTPUT:
        shown = f"{shown[:MOST_OUTPUT]} …"
    changed = "".join(f"  changed {diff.path}\n" for diff in activity.diffs)
    text = "".join(f"  {line}\n" for line in shown.splitlines())
    if activity.status == "failed":
        return f"{MARKS['failed']} failed\n{changed}{text}"
    return f"{changed}{text}"
