"""Inbox items for what an agent asks: complete, so that what is approved is what will be done.

The arguments of the call always stand in the item as they came. What they say beyond the command, the path and the
change is spelled out first, and what the agent says about the call follows: a description never replaces arguments.
An item is bounded. What exceeds the bound is cut in the middle with a mark, the item tells how much is hidden, and
nothing that was not seen whole can be allowed for good.
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tieline.backends.acp.activity import command_of, full_title, given_input, title_of
from tieline.backends.acp.rules import PATH_FIELDS, UNRULED, Ruled
from tieline.model.content import Text
from tieline.model.events import PlanEntry
from tieline.model.inbox import Approval, Option, OptionKind, PlanReview, within_limit
from tieline.wire.acp import facts

MOST_COMPARED = 6_000
"""Lines: to find what two longer texts have in common takes too long."""
CONTEXT = 3

ALLOW = ("allow_once", "allow_always")
REJECT = ("reject_once", "reject_always")

_KINDS: dict[str, OptionKind] = {
    "allow_once": "allow_once",
    "allow_always": "allow_always",
    "reject_once": "reject_once",
    "reject_always": "reject_always",
}
_CONTENT_FIELDS = frozenset(
    [
        *("content", "contents", "file_text", "insert_text", "text", "new_content", "old_content", "code_edit"),
        *("old_string", "new_string", "oldString", "newString", "old_str", "new_str", "oldText", "newText"),
    ]
)
"""Arguments that hold the text of a change, which the diff shows."""


class Draft(NamedTuple):
    """What an agent told of its plan beside the question about it: its last words, and the steps."""

    words: str
    steps: tuple[PlanEntry, ...]


def permission_of(asked: facts.PermissionAsked, ruled: Ruled = UNRULED) -> Approval:
    """What an agent wants to do, as the user should see it: exactly what would run or change.

    Nothing lasting is offered for a protected file: the agent would remember it and not ask again.
    """
    call = asked.call
    given = given_input(call)
    path = _path(call, given.fields)
    command = command_of(call)
    shown = _Shown(command, path or "", call.diffs)
    details = [*shown.missing(given.text, given.fields), *_said(call, given.text, command)]
    fields = (command, "\n".join(map(_diff, call.diffs)), "\n".join(details), given.text)
    (command, diff, detail, text), hidden = within_limit(fields)
    return Approval(
        title=title_of(call),
        tool=call.name or title_of(call),
        kind=call.kind or "other",
        path=path,
        command=command or None,
        diff=diff,
        detail=detail,
        input=text,
        hidden=hidden,
        risk=ruled.risk,
        options=_options(asked.options, may_last=not hidden and not ruled.is_protected),
    )


def review_of(asked: facts.PermissionAsked, draft: Draft) -> PlanReview:
    """A plan that stands in a call that wants to leave the mode of planning; else it is what was said before it."""
    call = asked.call
    given = given_input(call)
    plan = given.fields.get("plan")
    words = "\n".join(_texts(call, given.text))
    if not isinstance(plan, str) or not plan.strip():
        plan = words if words.strip() else draft.words
    others = {name: value for name, value in given.fields.items() if value != plan}
    details = list(_Shown("", "", ()).missing(given.text, others)) if others or not given.fields else []
    if words.strip() and words.strip() != plan.strip():
        details.append(words)
    (plan, detail, text), hidden = within_limit((plan, "\n".join(details), given.text))
    return PlanReview(
        title=title_of(call),
        plan=plan,
        steps=draft.steps,
        detail=detail,
        input=text,
        hidden=hidden,
        options=_options(asked.options, may_last=not hidden),
    )


def _options(offered: Sequence[facts.PermissionOption], *, may_last: bool) -> tuple[Option, ...]:
    """The agent's options, without those that allow for good unless that may be."""
    options = (Option(id=option.id, label=option.name, kind=_KINDS.get(option.kind, "other")) for option in offered)
    return tuple(option for option in options if may_last or option.kind != "allow_always")


def _path(call: facts.Call, given: dict[str, Any]) -> str | None:
    told = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    named = (given.get(name) for name in PATH_FIELDS)
    return next((one for one in (*told, *named) if isinstance(one, str)), None)


class _Shown(NamedTuple):
    """What an item shows of its call apart from details."""

    command: str
    path: str
    diffs: Sequence[facts.Diff]

    def missing(self, text: str, fields: dict[str, Any]) -> Iterator[str]:
        """The arguments that are not shown, one after the other; all of them if they are no object."""
        if not fields and text.strip() not in ("", "{}", "[]"):
            yield text
        for name, value in fields.items():
            if not self._shows(name, value):
                yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"

    def _shows(self, name: str, value: Any) -> bool:
        match value:
            case None | "" | [] | {}:
                return True
            case str():
                return value in (self.command, self.path) or (name in _CONTENT_FIELDS and self._changes(value))
            case list() if all(isinstance(one, str) for one in value):
                return name in ("command", "cmd") and bool(self.command) and self._is_argv(value)
            case list():
                return all(isinstance(one, dict) and all(self._shows(*pair) for pair in one.items()) for one in value)
            case _:
                return False

    def _changes(self, text: str) -> bool:
        return any(text in (diff.old or "") or text in diff.new for diff in self.diffs)

    def _is_argv(self, words: list[str]) -> bool:
        return command_of(facts.Call(id="", input=json.dumps({"command": words}))) == self.command


def _said(call: facts.Call, arguments: str, command: str) -> Iterator[str]:
    """What the agent says about a call, without what the item shows already."""
    title = full_title(call)
    if title.strip() and title.strip() not in (title_of(call), command.strip()):
        yield title
    diffs = {diff.path for diff in call.diffs}
    yield from (f"also at {place.path}" for place in call.locations[1:] if place.path not in diffs)
    for text in _texts(call, arguments):
        if text.strip() not in (title.strip(), command.strip()):
            yield text


def _texts(call: facts.Call, arguments: str) -> list[str]:
    texts = [part.text for part in call.content if isinstance(part, Text) and part.text.strip()]
    return [text for text in texts if text.strip() != arguments.strip()]


def _diff(diff: facts.Diff) -> str:
    """A change as a unified diff. Long texts are not compared: what goes is shown, then what comes."""
    before, after = (diff.old or "").splitlines(), diff.new.splitlines()
    same = _common(before, after)
    rest = _common(before[same:][::-1], after[same:][::-1])
    if len(before) + len(after) - 2 * (same + rest) <= MOST_COMPARED:
        # Of the lines in common at both ends only the context is needed.
        head, tail = max(0, same - CONTEXT), max(0, rest - CONTEXT)
        old, new = before[head : len(before) - tail], after[head : len(after) - tail]
        return "\n".join(_renumbered(difflib.unified_diff(old, new, diff.path, diff.path, lineterm=""), head))
    gone, come = before[same : len(before) - rest], after[same : len(after) - rest]
    where = f"@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@"
    lines = [f"--- {diff.path}", f"+++ {diff.path}", where]
    return "\n".join([*lines, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _renumbered(lines: Iterator[str], by: int) -> Iterator[str]:
    """A diff of texts whose first lines were left out, with the line numbers of the whole ones."""
    for line in lines:
        if by and line.startswith("@@ "):
            _, old, new, _ = line.split(" ")
            yield f"@@ -{_shifted(old[1:], by)} +{_shifted(new[1:], by)} @@"
        else:
            yield line


def _shifted(place: str, by: int) -> str:
    first, comma, count = place.partition(",")
    return f"{int(first) + by}{comma}{count}"
