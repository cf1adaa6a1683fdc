"""An agent's tool calls as activities: what it does, how far it is, what changed and what came out of it.

Output may stand in the call itself, in a terminal of the agent's own (told piece by piece), or in one that we run for
it. Whatever it is, an activity shows a bounded part of it.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.model.content import File, Image, Text
from tieline.model.events import Activity, Diff, Plan, PlanEntry, Status
from tieline.wire.acp import facts

MOST_OUTPUT = 32 * 1024
MOST_TITLE = 300
MOST_TERMINALS = 256

_STATUSES: Mapping[str, Status] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
}
_PRIORITIES: Mapping[str, Any] = {"high": "high", "medium": "medium", "low": "low"}
_OUTPUT_FIELDS = ("output", "stdout", "aggregated_output", "formatted_output", "result", "content", "error", "stderr")


class Activities:
    """The calls of one turn."""

    def __init__(self) -> None:
        self._calls: dict[str, facts.Call] = {}
        self._terminals: dict[str, str] = {}

    def call(self, call: facts.Call) -> Activity:
        """A call began or changed. Terminals that only their output told of stay with it."""
        known = self._calls.get(call.id)
        if known is not None and not call.content:
            call = replace(call, terminals=tuple(dict.fromkeys([*call.terminals, *known.terminals])))
        self._calls[call.id] = call
        while len(self._calls) > MOST_TERMINALS:
            del self._calls[next(iter(self._calls))]
        return self._activity(call)

    def output(self, told: facts.TerminalOutput) -> Activity:
        """More output of a terminal of the agent's own."""
        self._write(told.terminal, self._terminals.get(told.terminal, "") + told.text)
        return self._of_terminal(told.call, told.terminal)

    def ended(self, told: facts.TerminalEnded) -> Activity | None:
        """A terminal of the agent's own has ended; that it did well need not be said."""
        if told.signal is None and not told.exit_code:
            return None
        end = f"ended by {told.signal}" if told.signal is not None else f"exit status {told.exit_code}"
        before = self._terminals.get(told.terminal, "")
        gap = "" if not before or before.endswith("\n") else "\n"
        self._write(told.terminal, f"{before}{gap}({end})\n")
        return self._of_terminal(told.call, told.terminal)

    def shown(self, terminal: str, text: str) -> Activity | None:
        """What one of our terminals shows now; the activity it belongs to, if that is known."""
        self._write(terminal, text)
        call = next((call for call in self._calls.values() if terminal in call.terminals), None)
        return self._activity(call) if call is not None else None

    def _write(self, terminal: str, text: str) -> None:
        self._terminals[terminal] = text[-MOST_OUTPUT:]
        while len(self._terminals) > MOST_TERMINALS:
            del self._terminals[next(iter(self._terminals))]

    def _of_terminal(self, call_id: str, terminal: str) -> Activity:
        call = self._calls.get(call_id) or facts.Call(id=call_id, kind="execute", status="in_progress")
        if terminal not in call.terminals:
            # A terminal that nobody announced belongs to the call that speaks of it.
            call = replace(call, terminals=(*call.terminals, terminal))
        return self.call(call)

    def _activity(self, call: facts.Call) -> Activity:
        return Activity(
            id=call.id,
            kind=call.kind or "other",
            title=shown_title(call),
            status=_STATUSES.get(call.status, "in_progress"),
            output=self._output(call),
            diffs=tuple(Diff(path=diff.path, old=diff.old, new=diff.new) for diff in call.diffs),
            paths=tuple(dict.fromkeys([place.path for place in call.locations])),
        )

    def _output(self, call: facts.Call) -> str:
        texts = [_words(part) for part in call.content if not _is_input(part, call)]
        texts += [self._terminals.get(terminal, "") for terminal in call.terminals]
        text = "\n".join(one.rstrip("\n") for one in texts if one.strip())
        if not text and not call.diffs and call.has_ended:
            text = _raw(call.output)
        return text if len(text) <= MOST_OUTPUT else f"{text[: MOST_OUTPUT // 2]}\n…\n{text[-MOST_OUTPUT // 2 :]}"


def _is_input(part: object, call: facts.Call) -> bool:
    """Whether a part of the content is the arguments of the call (Kimi), and nothing that came of it."""
    may_be = isinstance(part, Text) and not call.input and part.text.lstrip().startswith("{")
    return may_be and isinstance(part, Text) and part.text == given_input(call).text


def plan_of(entries: tuple[facts.PlanEntry, ...]) -> Plan:
    """A plan in neutral words."""
    return Plan(
        entries=tuple(
            PlanEntry(
                content=entry.content,
                status=_STATUSES.get(entry.status, "pending"),
                priority=_PRIORITIES.get(entry.priority, "medium"),
            )
            for entry in entries
        )
    )


def title_of(call: facts.Call) -> str:
    """A line for a call, whatever the agent told of it."""
    title = " ".join(full_title(call).split())
    if not title:
        title = command_of(call) or (call.locations[0].path if call.locations else "") or call.kind or "a tool call"
    return title if len(title) <= MOST_TITLE else f"{title[:MOST_TITLE]}…"


def shown_title(call: facts.Call) -> str:
    """What a call does: the command, or the title with the file, since titles may tell neither ("bash", "Read")."""
    command = " ".join(command_of(call).split()) if call.kind == "execute" else ""
    if command:
        return command if len(command) <= MOST_TITLE else f"{command[:MOST_TITLE]}…"
    title = title_of(call)
    path = call.locations[0].path if call.locations else next((diff.path for diff in call.diffs), "")
    return f"{title} {path}" if path and path.rstrip("/").rpartition("/")[2] not in title else title


def is_bare(call: facts.Call) -> bool:
    """Whether nothing is known of a call but its name: the agent's model is still writing the arguments."""
    # The place of a command is only the folder it runs in (OpenCode).
    has_more = call.content or call.diffs or (call.locations and call.kind != "execute")
    return call.status == "pending" and not has_more and call.input.strip() in ("", "{}", "null")


def full_title(call: facts.Call) -> str:
    """What the agent calls a call, as it says it."""
    return call.title or call.name


class Input(NamedTuple):
    """The arguments of a call: as text, and by name if they are an object."""

    text: str
    fields: dict[str, Any]


def input_of(call: facts.Call) -> dict[str, Any]:
    """The structured input of a call, if it is an object."""
    return _object(call.input)


def given_input(call: facts.Call) -> Input:
    """The arguments of a call. Some agents tell them only as JSON text in the content (Kimi)."""
    if call.input.strip() not in ("", "null", "{}"):
        return Input(call.input, _object(call.input))
    for part in call.content:
        if isinstance(part, Text) and part.text.lstrip().startswith("{") and (fields := _object(part.text)):
            return Input(part.text, fields)
    return Input(call.input, {})


def command_of(call: facts.Call) -> str:
    """The command that a call would run, if its arguments tell one."""
    return command_in(given_input(call).fields)


def command_in(given: Mapping[str, Any]) -> str:
    """The command among the arguments of a call."""
    for name in ("command", "cmd", "commandLine", "script"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return shlex.join(value)
    return ""


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _words(part: object) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return f"[a picture{f': {part.url}' if part.url else ''}]"
        case File():
            return f"[{part.name or part.url or 'a file'}]"
        case _:
            return ""


def _raw(output: str) -> str:
    """What a call's raw output says, which may be text, an object with text in it, or anything."""
    try:
        value = json.loads(output or "null")
    except (ValueError, RecursionError):
        return output
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in _OUTPUT_FIELDS:
            if isinstance(value.get(name), str) and value[name].strip():
                return str(value[name])
    return output if value not in (None, {}, []) else ""
