"""Builds the inbox items for permission requests from agents. An item shows all that the agent reports about a call.

An item contains the arguments of the call unchanged, unless they are too long. The command, the path and the change
have fields of their own. The details contain all other arguments, followed by the agent's own description of the call,
which never replaces arguments. The size of an item is limited. If an item is too long, the middle of its longest fields
is replaced by a mark that says how much is hidden, and the user cannot allow the action permanently.
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tieline.backends.acp.fact_events import command_of, full_title, given_input, title_of
from tieline.backends.acp.rules import NO_RULING, PATH_FIELDS, Ruling
from tieline.model.content import Text
from tieline.model.events import PlanEntry
from tieline.model.inbox import Approval, Option, OptionKind, PlanReview, within_limit
from tieline.wire.acp import facts

MAX_COMPARED = 6_000
"""Maximum number of lines, in both texts together, that are compared. Comparing longer texts takes too long.

Common lines at both ends do not count.
"""
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
"""Names of arguments that hold the text of a change. The diff already shows this text."""


class PlanDraft(NamedTuple):
    """The content of a plan review: the agent's last text, and the steps of its latest plan."""

    text: str
    steps: tuple[PlanEntry, ...]


def permission_of(request: facts.PermissionRequested, ruled: Ruling = NO_RULING) -> Approval:
    """Return the inbox item for a permission request.

    If `ruled` says that a file is protected, no lasting permission is offered, because the agent would remember it and
    never ask again.
    """
    call = request.call
    given = given_input(call)
    path = _path(call, given.fields)
    command = command_of(call)
    shown = _ShownParts(command, path or "", call.diffs)
    details = [*shown.missing(given.text, given.fields), *_descriptions(call, given.text, command)]
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
        options=_options(request.options, may_last=not hidden and not ruled.is_protected),
    )


def review_of(request: facts.PermissionRequested, draft: PlanDraft) -> PlanReview:
    """Return the plan review for a request to leave plan mode. If the call contains no plan, use the draft's text."""
    call = request.call
    given = given_input(call)
    plan = given.fields.get("plan")
    content = "\n".join(_texts(call, given.text))
    if not isinstance(plan, str) or not plan.strip():
        plan = content if content.strip() else draft.text
    others = {name: value for name, value in given.fields.items() if value != plan}
    details = list(_ShownParts("", "", ()).missing(given.text, others)) if others or not given.fields else []
    if content.strip() and content.strip() != plan.strip():
        details.append(content)
    (plan, detail, text), hidden = within_limit((plan, "\n".join(details), given.text))
    return PlanReview(
        title=title_of(call),
        plan=plan,
        steps=draft.steps,
        detail=detail,
        input=text,
        hidden=hidden,
        options=_options(request.options, may_last=not hidden),
    )


def _options(offered: Sequence[facts.PermissionOption], *, may_last: bool) -> tuple[Option, ...]:
    """Return the agent's options for an inbox item. Leave out lasting permissions unless `may_last` is true."""
    options = (Option(id=option.id, label=option.name, kind=_KINDS.get(option.kind, "other")) for option in offered)
    return tuple(option for option in options if may_last or option.kind != "allow_always")


def _path(call: facts.AgentCall, given: dict[str, Any]) -> str | None:
    reported = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    named = (given.get(name) for name in PATH_FIELDS)
    return next((one for one in (*reported, *named) if isinstance(one, str)), None)


class _ShownParts(NamedTuple):
    """The parts of a call that an inbox item shows in separate fields."""

    command: str
    path: str
    diffs: Sequence[facts.CallDiff]

    def missing(self, text: str, fields: dict[str, Any]) -> Iterator[str]:
        """Yield the arguments that these parts do not show. `fields` holds the arguments by name, `text` as sent.

        If `fields` is empty because the arguments are not a JSON object, yield the whole `text`.
        """
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

    def _is_argv(self, argv: list[str]) -> bool:
        return command_of(facts.AgentCall(id="", input=json.dumps({"command": argv}))) == self.command


def _descriptions(call: facts.AgentCall, arguments: str, command: str) -> Iterator[str]:
    """Yield the agent's descriptions of a call, except those that the item already shows elsewhere."""
    title = full_title(call)
    if title.strip() and title.strip() not in (title_of(call), command.strip()):
        yield title
    diffs = {diff.path for diff in call.diffs}
    yield from (f"also at {place.path}" for place in call.locations[1:] if place.path not in diffs)
    for text in _texts(call, arguments):
        if text.strip() not in (title.strip(), command.strip()):
            yield text


def _texts(call: facts.AgentCall, arguments: str) -> list[str]:
    texts = [part.text for part in call.content if isinstance(part, Text) and part.text.strip()]
    return [text for text in texts if text.strip() != arguments.strip()]


def _diff(diff: facts.CallDiff) -> str:
    """Return a change as a unified diff.

    If the change is too long to compare, list all old lines, followed by all new ones, without the common lines at both
    ends.
    """
    before, after = (diff.old or "").splitlines(), diff.new.splitlines()
    same = _common(before, after)
    rest = _common(before[same:][::-1], after[same:][::-1])
    if len(before) + len(after) - 2 * (same + rest) <= MAX_COMPARED:
        # Of the common lines at both ends, the diff needs only the context.
        head, tail = max(0, same - CONTEXT), max(0, rest - CONTEXT)
        old, new = before[head : len(before) - tail], after[head : len(after) - tail]
        return "\n".join(_renumbered(difflib.unified_diff(old, new, diff.path, diff.path, lineterm=""), head))
    gone, come = before[same : len(before) - rest], after[same : len(after) - rest]
    where = f"@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@"
    lines = [f"--- {diff.path}", f"+++ {diff.path}", where]
    return "\n".join([*lines, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both texts."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _renumbered(lines: Iterator[str], by: int) -> Iterator[str]:
    """Add `by` to the line numbers in a diff, because the compared texts lack their first `by` lines."""
    for line in lines:
        if by and line.startswith("@@ "):
            _, old, new, _ = line.split(" ")
            yield f"@@ -{_shifted(old[1:], by)} +{_shifted(new[1:], by)} @@"
        else:
            yield line


def _shifted(place: str, by: int) -> str:
    first, comma, count = place.partition(",")
    return f"{int(first) + by}{comma}{count}"
