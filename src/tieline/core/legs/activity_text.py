"""What an agent does by itself, made visible to clients that know no such thing: as thinking, as text, or not at all.

An HTTP client must never take an agent's own tool calls for calls it should run (it would run them a second time). So
they become lines of a part of their own: thinking for clients that fold it away, text for those that show nothing else.
Some clients write parts one behind the other without a break, so a part of ours keeps its distance, and so do the
model's words before and after something was done.
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

Style = Literal["reasoning", "text", "hidden", "events"]
"""How activities are shown; as the events they are to whoever knows them."""

MOST_OUTPUT = 400
"""So much of what came of an activity is shown."""
MOST_TITLES = 3
"""How often an activity that is still under way is told under another title; the one at its end always is."""
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
        self._titles: dict[str, list[str]] = {}
        """What each activity was called so far."""
        self._latest = ""
        """The activity that the last line was about."""
        self._plan = ""
        self._before: Part | None = None
        """The part that came last."""
        self._last_words = ""
        """What the last text ends with."""
        self._has_done = False
        """Whether something was done since."""
        self._lead = ""
        """What the text under way begins with that the model did not say."""
        self._is_led = False
        self._own: list[Part] = []

    def is_own(self, part: Part) -> bool:
        """Whether a part is of our making: not what the model thought, and not to be remembered as that."""
        return any(part is own for own in self._own)

    def apply(self, batch: Batch) -> Batch:
        """The batch as the client is to have it; the very same one if there is nothing to show."""
        if self._style == "events":
            return batch
        if len(batch) == 1 and type(batch[0]) is PartDelta:  # most are, as agents write word by word
            delta = self._splice.renumber(self._led(batch[0]))
            return batch if delta is batch[0] else [delta]
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
                    out.append(self._splice.renumber(self._led(event)))
                case PartEnd():
                    self._end(out, event)
                case Finished() | Failed():
                    self._close(out)
                    out.append(event)
                case _:
                    out.append(event)
        return out

    # ── A part of the model ──────────────────────────────────────────────────────────────────────

    def _begin(self, out: list[Event], start: PartStart) -> None:
        is_text = isinstance(start.part, Text)
        if self._lines is not None and self._style == "text" and is_text:
            self._write(out, "\n")
        self._close(out)
        self._is_inside = True
        self._latest = ""
        self._lead = _distance(self._last_words) if is_text and self._has_done else ""
        self._is_led = False
        out.append(self._splice.renumber(start))

    def _led(self, delta: PartDelta) -> PartDelta:
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
        self._ended(part)
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._say(out, line)

    def _ended(self, part: Part) -> None:
        self._before = part
        if isinstance(part, Text) and part.text:
            self._last_words = part.text[-1]
            self._has_done = False

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
            out.append(PartEnd(index=self._splice.take_index(), part=whole))
            self._lines = None
            self._own.append(whole)
            self._ended(whole)

    def _part(self, text: str) -> Part:
        return Thinking(text=text) if self._style == "reasoning" else Text(text=text)

    def _distance(self) -> str:
        before = self._before
        is_alike = type(before) is (Thinking if self._style == "reasoning" else Text)
        return _distance(before.text) if is_alike and isinstance(before, Text | Thinking) else ""

    # ── Words ────────────────────────────────────────────────────────────────────────────────────

    def _activity(self, activity: Activity) -> str:
        """A line when it begins, another when it turns out to be something else, and what came of it at the end."""
        self._has_done = True
        if self._has_ended.get(activity.id):
            return ""
        is_over = activity.status in ("completed", "failed")
        title = " ".join(activity.title.split())
        titles = self._titles.setdefault(activity.id, [])
        is_new = title not in titles[-1:]
        if not is_over and (not is_new or len(titles) >= MOST_TITLES):
            return ""
        is_told = not is_new and self._latest == activity.id
        self._has_ended[activity.id] = is_over
        self._latest = activity.id
        titles.append(title)
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
    output = activity.output.strip()
    made = activity.diffs if activity.status == "completed" else ()
    changed = "".join(f"  changed {diff.path}\n" for diff in made if diff.path not in output)
    return changed + "".join(f"  {line}\n" for line in _shortened(output, activity.kind).splitlines())


def _shortened(output: str, kind: str) -> str:
    """The beginning of a long output; a command tells at its end how it went."""
    if len(output) <= MOST_OUTPUT:
        return output
    if kind != "execute":
        return f"{output[:MOST_OUTPUT]} …"
    return f"{output[: MOST_OUTPUT // 2]} …\n… {output[-MOST_OUTPUT // 2 :]}"


def _distance(words: str) -> str:
    """What has to stand between these words and the next."""
    return "\n\n" if words and not words.endswith("\n") else ""
