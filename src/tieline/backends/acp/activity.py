"""Tool calls of an agent as activities, with status, output and changed files.

Output is in the call itself, in one of the agent's own terminals (reported in fragments), or in a terminal that the
gateway runs for the agent. An activity shows a bounded part of it.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import File, Image, Text
from tieline.model.events import Activity, Diff, Plan, PlanEntry, Status
from tieline.wire.acp import facts

MAX_OUTPUT = 32 * 1024
MAX_TITLE = 300
MAX_TERMINALS = 256

_STATUSES: Mapping[str, Status] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
}
_PRIORITIES: Mapping[str, Any] = {"high": "high", "medium": "medium", "low": "low"}
_OUTPUT_FIELDS = ("output", "stdout", "aggregated_output", "formatted_output", "result", "content", "error", "stderr")


class Activities:
    """The calls of one turn, and the output of their terminals."""

    def __init__(self) -> None:
        self._calls: BoundedCache[str, facts.AgentCall] = BoundedCache(MAX_TERMINALS)
        self._terminals: BoundedCache[str, str] = BoundedCache(MAX_TERMINALS)
        self._owners: BoundedCache[str, str] = BoundedCache(MAX_TERMINALS)
        """The ids of the calls that terminals belong to."""

    def call(self, call: facts.AgentCall) -> Activity:
        """Return the activity of a call that began or changed. Terminals known only from their output stay with it."""
        known = self._calls.get(call.id)
        if known is not None and not call.content:
            call = replace(call, terminals=tuple(dict.fromkeys([*call.terminals, *known.terminals])))
        self._calls.put(call.id, call)
        for terminal in call.terminals:
            self._owners.put(terminal, call.id)
        return self._activity(call)

    def output(self, fact: facts.TerminalOutput) -> Activity:
        """Add output of one of the agent's own terminals."""
        self._write(fact.terminal, (self._terminals.get(fact.terminal) or "") + fact.text)
        return self._of_terminal(fact.call, fact.terminal)

    def ended(self, fact: facts.TerminalEnded) -> Activity | None:
        """Add how one of the agent's own terminals ended. Return None after success, which is not shown."""
        if fact.signal is None and not fact.exit_code:
            return None
        end = f"ended by {fact.signal}" if fact.signal is not None else f"exit status {fact.exit_code}"
        before = self._terminals.get(fact.terminal) or ""
        gap = "" if not before or before.endswith("\n") else "\n"
        self._write(fact.terminal, f"{before}{gap}({end})\n")
        return self._of_terminal(fact.call, fact.terminal)

    def shown(self, terminal: str, text: str) -> Activity | None:
        """Replace the output of a terminal of the gateway. Return its activity, if it belongs to a known call."""
        self._write(terminal, text)
        call = self._calls.get(self._owners.get(terminal) or "")
        return self._activity(call) if call is not None else None

    def _write(self, terminal: str, text: str) -> None:
        self._terminals.put(terminal, text[-MAX_OUTPUT:])

    def _of_terminal(self, call_id: str, terminal: str) -> Activity:
        call = self._calls.get(call_id) or facts.AgentCall(id=call_id, kind="execute", status="in_progress")
        if terminal not in call.terminals:
            # A terminal that was not announced belongs to the call that reports its output.
            call = replace(call, terminals=(*call.terminals, terminal))
        return self.call(call)

    def _activity(self, call: facts.AgentCall) -> Activity:
        return Activity(
            id=call.id,
            kind=call.kind or "other",
            title=shown_title(call),
            status=_STATUSES.get(call.status, "in_progress"),
            output=self._output(call),
            diffs=tuple(Diff(path=diff.path, old=diff.old, new=diff.new) for diff in call.diffs),
            paths=tuple(dict.fromkeys([place.path for place in call.locations])),
        )

    def _output(self, call: facts.AgentCall) -> str:
        texts = [_described(part) for part in call.content if not _is_input(part, call)]
        texts += [self._terminals.get(terminal) or "" for terminal in call.terminals]
        text = "\n".join(one.rstrip("\n") for one in texts if one.strip())
        if call.output and not text and not call.diffs and call.has_ended:
            text = _raw(call.output)
        return text if len(text) <= MAX_OUTPUT else f"{text[: MAX_OUTPUT // 2]}\n…\n{text[-MAX_OUTPUT // 2 :]}"


def _is_input(part: object, call: facts.AgentCall) -> bool:
    """Return whether a part of the content holds the arguments of the call (Kimi) and not its output."""
    may_be = isinstance(part, Text) and not call.input and part.text.lstrip().startswith("{")
    return may_be and isinstance(part, Text) and part.text == given_input(call).text


def plan_of(entries: tuple[facts.AgentPlanEntry, ...]) -> Plan:
    """Return the neutral plan."""
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


def title_of(call: facts.AgentCall) -> str:
    """Return a one-line title for a call, whatever is known about it."""
    title = " ".join(full_title(call).split())
    if not title:
        title = command_of(call) or (call.locations[0].path if call.locations else "") or call.kind or "a tool call"
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"


def shown_title(call: facts.AgentCall) -> str:
    """Return what a call does: its command, or its title with the file. Titles may show neither ("bash", "Read")."""
    command = " ".join(command_of(call).split()) if call.kind == "execute" else ""
    if command:
        return command if len(command) <= MAX_TITLE else f"{command[:MAX_TITLE]}…"
    title = title_of(call)
    path = call.locations[0].path if call.locations else next((diff.path for diff in call.diffs), "")
    return f"{title} {path}" if path and path.rstrip("/").rpartition("/")[2] not in title else title


def is_bare(call: facts.AgentCall) -> bool:
    """Return whether only the name of a call is known, because the model is still writing the arguments."""
    # The location of a command is just the folder it runs in (OpenCode).
    has_more = call.content or call.diffs or (call.locations and call.kind != "execute")
    return call.status == "pending" and not has_more and call.input.strip() in ("", "{}", "null")


def full_title(call: facts.AgentCall) -> str:
    """Return the title of a call as the agent wrote it."""
    return call.title or call.name


class CallInput(NamedTuple):
    """The arguments of a call: as text and, if they are an object, by name."""

    text: str
    fields: dict[str, Any]


def input_of(call: facts.AgentCall) -> dict[str, Any]:
    """Return the structured input of a call, if it is an object."""
    return _object(call.input)


def given_input(call: facts.AgentCall) -> CallInput:
    """Return the arguments of a call. Some agents send them only as JSON text in the content (Kimi)."""
    if call.input.strip() not in ("", "null", "{}"):
        return CallInput(call.input, _object(call.input))
    for part in call.content:
        if isinstance(part, Text) and part.text.lstrip().startswith("{") and (fields := _object(part.text)):
            return CallInput(part.text, fields)
    return CallInput(call.input, {})


def command_of(call: facts.AgentCall) -> str:
    """Return the command that a call would run, if its arguments contain one."""
    return command_in(given_input(call).fields)


def command_in(given: Mapping[str, Any]) -> str:
    """Return the command among the arguments of a call."""
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


def _described(part: object) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return f"[an image{f': {part.url}' if part.url else ''}]"
        case File():
            return f"[{part.name or part.url or 'a file'}]"
        case _:
            return ""


def _raw(output: str) -> str:
    """Return the text in the raw output of a call, which may be text, an object with text, or anything else."""
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
