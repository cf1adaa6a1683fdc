"""Translates facts from an agent into events: text, thinking, activities, plans, usage and notes.

A tool call becomes an activity with status, output and changed files. The output comes from the call itself, from one
of the agent's own terminals (in fragments), or from a terminal that the gateway runs for the agent. Long output is
shortened.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tieline.backends.acp.leg_queue import LegQueue
from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import File, Image, Text
from tieline.model.events import Activity, Diff, Plan, PlanEntry, Status, Usage
from tieline.wire.acp import facts
from tieline.wire.acp.facts import Fact

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


class FactTranslator:
    """Translates the facts of one turn into queued events.

    `is_clients` returns whether the client receives a call as a tool call. Such a call is not shown as an activity.
    """

    def __init__(self, queue: LegQueue, is_clients: Callable[[facts.AgentCall], bool]) -> None:
        self.steps: tuple[PlanEntry, ...] = ()
        """The steps of the agent's latest plan."""
        self._queue = queue
        self._is_clients = is_clients
        self._activities = Activities()
        self._filled: facts.UsageUpdate | None = None
        self._used: Usage | None = None

    def translate(self, fact: Fact) -> bool:
        """Queue the events for a fact. Return False if the fact is not output from the agent."""
        translator = _TRANSLATORS.get(type(fact))
        if translator is None:
            return False
        translator(self, fact)
        return True

    def call(self, call: facts.AgentCall) -> None:
        """Queue the activity for a tool call that has begun or changed, unless it is a call to a client's tool."""
        if not self._is_clients(call):
            self._queue.activity(self._activities.call(call))

    def shown(self, terminal: str, text: str) -> None:
        """Set the output of a terminal that the gateway runs, and queue the activity of its call."""
        activity = self._activities.shown(terminal, text)
        if activity is not None:
            self._queue.activity(activity)

    def add_usage(self, usage: Usage | None) -> None:
        """Add the usage of one prompt to that of the turn."""
        before = self._used
        if usage is not None:
            self._used = usage if before is None else _sum(before, usage)

    def queue_usage(self) -> None:
        """Queue the usage of the turn. If the agent did not report it, queue the size of the context instead."""
        if self._used is not None:
            self._queue.event(self._used)
        elif self._filled is not None:
            self._queue.event(Usage(input=self._filled.used))

    def _text(self, fact: facts.TextChunk) -> None:
        self._queue.text(fact.text, fact.message)

    def _thought(self, fact: facts.ThoughtChunk) -> None:
        self._queue.thought(fact.text, fact.message)

    def _content(self, fact: facts.ContentChunk) -> None:
        """Queue content other than text as Markdown. Ignore the user's own content, which the agent only echoes."""
        if fact.speaker == "agent":
            self._queue.text(_markdown(fact.part), fact.message)
        elif fact.speaker == "thought":
            self._queue.thought(_markdown(fact.part), fact.message)

    def _call_update(self, fact: facts.CallUpdate) -> None:
        if not is_bare(fact.call):
            self.call(fact.call)

    def _terminal_output(self, fact: facts.TerminalOutput) -> None:
        self._queue.activity(self._activities.output(fact))

    def _terminal_ended(self, fact: facts.TerminalEnded) -> None:
        activity = self._activities.ended(fact)
        if activity is not None:
            self._queue.activity(activity)

    def _plan(self, fact: facts.PlanUpdate) -> None:
        plan = plan_of(fact.entries)
        self.steps = plan.entries
        self._queue.event(plan)

    def _usage(self, fact: facts.UsageUpdate) -> None:
        self._filled = fact

    def _notice(self, fact: facts.Noticed) -> None:
        more = f": {fact.description}" if fact.description else ""
        self._queue.note("notice", f"{fact.severity}: {fact.title}{more}")

    def _compaction(self, fact: facts.Compaction) -> None:
        if fact.status:
            self._queue.note("compaction", f"the agent compacts its history: {fact.status}")


def plan_of(entries: tuple[facts.AgentPlanEntry, ...]) -> Plan:
    """Convert the entries of an agent's plan into a plan event."""
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


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
    )


def _markdown(part: object) -> str:
    match part:
        case Text():
            return part.text
        case Image(url=str(url)):
            return f"![image]({url})"
        case Image():
            return f"[{part.media_type or 'an image'}]"
        case File(url=str(url)):
            return f"[{part.name or url}]({url})"
        case File():
            return f"[{part.name or part.media_type or 'a file'}]"
        case _:
            return ""


_TRANSLATORS: dict[type, Callable[[FactTranslator, Any], None]] = {
    facts.TextChunk: FactTranslator._text,
    facts.ThoughtChunk: FactTranslator._thought,
    facts.ContentChunk: FactTranslator._content,
    facts.CallUpdate: FactTranslator._call_update,
    facts.TerminalOutput: FactTranslator._terminal_output,
    facts.TerminalEnded: FactTranslator._terminal_ended,
    facts.PlanUpdate: FactTranslator._plan,
    facts.UsageUpdate: FactTranslator._usage,
    facts.Noticed: FactTranslator._notice,
    facts.Compaction: FactTranslator._compaction,
}


# ── Activities ───────────────────────────────────────────────────────────────────────────────────


class Activities:
    """Builds activities from the tool calls of one turn and the output of their terminals."""

    def __init__(self) -> None:
        self._calls: BoundedCache[str, facts.AgentCall] = BoundedCache(MAX_TERMINALS)
        self._terminals: BoundedCache[str, str] = BoundedCache(MAX_TERMINALS)
        self._owners: BoundedCache[str, str] = BoundedCache(MAX_TERMINALS)
        """The id of the call to which each terminal belongs, by the terminal's name."""

    def call(self, call: facts.AgentCall) -> Activity:
        """Return the activity of a call that has begun or changed.

        Unless the call has content, it keeps the terminals that were assigned to it earlier.
        """
        known = self._calls.get(call.id)
        if known is not None and not call.content:
            call = replace(call, terminals=tuple(dict.fromkeys([*call.terminals, *known.terminals])))
        self._calls.put(call.id, call)
        for terminal in call.terminals:
            self._owners.put(terminal, call.id)
        return self._activity(call)

    def output(self, fact: facts.TerminalOutput) -> Activity:
        """Append output from one of the agent's own terminals, and return the activity of its call."""
        self._write(fact.terminal, (self._terminals.get(fact.terminal) or "") + fact.text)
        return self._of_terminal(fact.call, fact.terminal)

    def ended(self, fact: facts.TerminalEnded) -> Activity | None:
        """Append the exit status of one of the agent's own terminals, and return the activity of its call.

        Return None if the command succeeded, because success is not shown.
        """
        if fact.signal is None and not fact.exit_code:
            return None
        end = f"ended by {fact.signal}" if fact.signal is not None else f"exit status {fact.exit_code}"
        before = self._terminals.get(fact.terminal) or ""
        gap = "" if not before or before.endswith("\n") else "\n"
        self._write(fact.terminal, f"{before}{gap}({end})\n")
        return self._of_terminal(fact.call, fact.terminal)

    def shown(self, terminal: str, text: str) -> Activity | None:
        """Replace the output of a terminal that the gateway runs, and return the activity of its call.

        Return None if the call is not known.
        """
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
    """Return whether a part of a call's content holds the arguments instead of the output. Kimi sends such parts."""
    may_be = isinstance(part, Text) and not call.input and part.text.lstrip().startswith("{")
    return may_be and isinstance(part, Text) and part.text == given_input(call).text


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
    """Return the text in the raw output of a call. The output may be text, an object with text, or anything else."""
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


# ── Title and input of a call ────────────────────────────────────────────────────────────────────


def title_of(call: facts.AgentCall) -> str:
    """Return a one-line title for a call. If the agent sent no title, return the command, the path or the kind."""
    title = " ".join(full_title(call).split())
    if not title:
        title = command_of(call) or (call.locations[0].path if call.locations else "") or call.kind or "a tool call"
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"


def shown_title(call: facts.AgentCall) -> str:
    """Return the title of a call's activity: its command, or the agent's title followed by the file.

    The agent's title alone may contain neither the command nor the file, as in "bash" or "Read".
    """
    command = " ".join(command_of(call).split()) if call.kind == "execute" else ""
    if command:
        return command if len(command) <= MAX_TITLE else f"{command[:MAX_TITLE]}…"
    title = title_of(call)
    path = call.locations[0].path if call.locations else next((diff.path for diff in call.diffs), "")
    return f"{title} {path}" if path and path.rstrip("/").rpartition("/")[2] not in title else title


def is_bare(call: facts.AgentCall) -> bool:
    """Return whether only the name of a call is known, because the model is still writing the arguments."""
    # For a command, the location may be just the folder it runs in (OpenCode).
    has_more = call.content or call.diffs or (call.locations and call.kind != "execute")
    return call.status == "pending" and not has_more and call.input.strip() in ("", "{}", "null")


def full_title(call: facts.AgentCall) -> str:
    """Return the title of a call as the agent wrote it, or the name of the tool if there is no title."""
    return call.title or call.name


class CallInput(NamedTuple):
    """The arguments of a call: as text and, if the text is a JSON object, also by name."""

    text: str
    fields: dict[str, Any]


def input_of(call: facts.AgentCall) -> dict[str, Any]:
    """Return the structured input of a call, or {} if it is not a JSON object."""
    return _object(call.input)


def given_input(call: facts.AgentCall) -> CallInput:
    """Return the arguments of a call. Some agents, such as Kimi, send them only as JSON text in the content."""
    if call.input.strip() not in ("", "null", "{}"):
        return CallInput(call.input, _object(call.input))
    for part in call.content:
        if isinstance(part, Text) and part.text.lstrip().startswith("{") and (fields := _object(part.text)):
            return CallInput(part.text, fields)
    return CallInput(call.input, {})


def command_of(call: facts.AgentCall) -> str:
    """Return the command that a call would run, or an empty string if its arguments contain none."""
    return command_in(given_input(call).fields)


def command_in(given: Mapping[str, Any]) -> str:
    """Return the command in the arguments of a call, or an empty string if there is none."""
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
