"""Renders activities for clients whose protocol has no activities: as thinking, as text, or not at all.

An HTTP client must never mistake an agent's own tool calls for calls to the client's tools: it would run them again.
Activities therefore become lines of a separate part: thinking for clients that can hide it, text for other clients.
Some clients concatenate parts, so a blank line separates such a part from its neighbours, and separates two texts from
the model if there was an activity between them.
"""

from typing import Literal

from msgspec.structs import replace

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
from tieline.model.splice import Splice

ActivityStyle = Literal["reasoning", "text", "hidden", "events"]
"""How activities are shown to a client; `events` passes them on unchanged."""

MAX_OUTPUT = 400
"""Maximum number of characters of an activity's output that are shown."""
MAX_TITLES = 3
"""Maximum number of different titles shown while an activity runs; its final title is always shown."""
MARKS: dict[Status, str] = {"pending": "○", "in_progress": "▸", "completed": "✓", "failed": "✗"}


class ActivityRenderer:
    """Renders the activities of one leg and inserts them between the model's parts."""

    def __init__(self, style: ActivityStyle) -> None:
        self._style = style
        self._splice = Splice()
        self._lines: list[str] | None = None
        """The lines of the inserted part that is not complete yet, or None if there is no such part."""
        self._is_inside = False
        """Whether a part of the model's answer is incomplete. If so, new lines are inserted after it."""
        self._waiting: list[str] = []
        self._has_ended: dict[str, bool] = {}
        self._titles: dict[str, list[str]] = {}
        """The titles already shown for each activity, by activity id."""
        self._latest = ""
        """The id of the activity that was shown last."""
        self._plan = ""
        self._before: Part | None = None
        """The last complete part, whether it came from the model or was inserted."""
        self._last_character = ""
        """The last character of the last complete text part."""
        self._has_activity = False
        """Whether there was an activity since the last complete text part."""
        self._lead = ""
        """The separator inserted at the beginning of the open text part."""
        self._is_led = False
        self._own: list[Part] = []

    def is_own(self, part: Part) -> bool:
        """Return whether the part was inserted by this renderer rather than sent by the model."""
        return any(part is own for own in self._own)

    def apply(self, batch: Batch) -> Batch:
        """Return the batch with its activities rendered, or the same object if nothing changes."""
        if self._style == "events":
            return batch
        if len(batch) == 1 and type(batch[0]) is PartDelta:  # the most frequent case
            delta = self._splice.renumber(self._with_lead(batch[0]))
            return batch if delta is batch[0] else [delta]
        out: list[Event] = []
        for event in batch:
            match event:
                case Activity():
                    self._insert(out, self._activity(event))
                case Plan():
                    self._insert(out, self._planned(event))
                case PartStart():
                    self._begin(out, event)
                case PartDelta():
                    out.append(self._splice.renumber(self._with_lead(event)))
                case PartEnd():
                    self._end(out, event)
                case Finished() | Failed():
                    self._close(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    # ── Parts from the model ─────────────────────────────────────────────────────────────────────

    def _begin(self, out: list[Event], start: PartStart) -> None:
        is_text = isinstance(start.part, Text)
        if self._lines is not None and self._style == "text" and is_text:
            self._write(out, "\n")
        self._close(out)
        self._is_inside = True
        self._latest = ""
        self._lead = _separator(self._last_character) if is_text and self._has_activity else ""
        self._is_led = False
        out.append(self._splice.renumber(start))

    def _with_lead(self, delta: PartDelta) -> PartDelta:
        if not self._lead or self._is_led:
            return delta
        self._is_led = True
        return PartDelta(delta.index, self._lead + delta.text)

    def _end(self, out: list[Event], end: PartEnd) -> None:
        part = end.part
        if self._is_led and isinstance(part, Text):
            part = replace(part, text=self._lead + part.text)
            end = replace(end, part=part)
        out.append(self._splice.renumber(end))
        self._is_inside = False
        self._part_ended(part)
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._insert(out, line)

    def _part_ended(self, part: Part) -> None:
        self._before = part
        if isinstance(part, Text) and part.text:
            self._last_character = part.text[-1]
            self._has_activity = False

    # ── Inserted parts ───────────────────────────────────────────────────────────────────────────

    def _insert(self, out: list[Event], line: str) -> None:
        if not line or self._style == "hidden":
            return
        if self._is_inside:
            self._waiting.append(line)
            return
        if self._lines is None:
            self._lines = []
            out.append(PartStart(index=self._splice.next_index, part=self._part("")))
            line = self._separator() + line
        self._write(out, line)

    def _write(self, out: list[Event], text: str) -> None:
        if self._lines is not None:
            self._lines.append(text)
            out.append(PartDelta(index=self._splice.next_index, text=text))

    def _close(self, out: list[Event]) -> None:
        if self._lines is not None:
            whole = self._part("".join(self._lines))
            out.append(PartEnd(index=self._splice.take_index(), part=whole))
            self._lines = None
            self._own.append(whole)
            self._part_ended(whole)

    def _part(self, text: str) -> Part:
        return Thinking(text=text) if self._style == "reasoning" else Text(text=text)

    def _separator(self) -> str:
        before = self._before
        is_same_type = type(before) is (Thinking if self._style == "reasoning" else Text)
        return _separator(before.text) if is_same_type and isinstance(before, Text | Thinking) else ""

    # ── Lines ────────────────────────────────────────────────────────────────────────────────────

    def _activity(self, activity: Activity) -> str:
        """Return the text for an activity: a line if it is new or has a new title, and its outcome if it has ended."""
        self._has_activity = True
        if self._has_ended.get(activity.id):
            return ""
        is_over = activity.status in ("completed", "failed")
        title = " ".join(activity.title.split())
        titles = self._titles.setdefault(activity.id, [])
        is_new = title not in titles[-1:]
        if not is_over and (not is_new or len(titles) >= MAX_TITLES):
            return ""
        is_shown = not is_new and self._latest == activity.id
        self._has_ended[activity.id] = is_over
        self._latest = activity.id
        titles.append(title)
        if not is_over:
            return f"{MARKS['in_progress']} {title}\n"
        if not is_shown:
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
    output = activity.output.strip()
    diffs = activity.diffs if activity.status == "completed" else ()
    changed = "".join(f"  changed {diff.path}\n" for diff in diffs if diff.path not in output)
    return changed + "".join(f"  {line}\n" for line in _shortened(output, activity.kind).splitlines())


def _shortened(output: str, kind: str) -> str:
    """Truncate a long output. For a command, keep the end as well, because it shows the outcome."""
    if len(output) <= MAX_OUTPUT:
        return output
    if kind != "execute":
        return f"{output[:MAX_OUTPUT]} …"
    return f"{output[: MAX_OUTPUT // 2]} …\n… {output[-MAX_OUTPUT // 2 :]}"


def _separator(text: str) -> str:
    """Return the line breaks to insert after this text, so that a blank line separates it from the next text."""
    return "\n\n" if text and not text.endswith("\n") else ""
