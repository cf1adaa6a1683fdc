"""Interface for rules that decide about permission requests before the user is asked.

An agent runs with rights of its own and asks of its own accord, so the rules see only what the agent says it will do,
like the user. If they do not decide, the user is asked. Some agents put a command only into the title (Gemini) or the
content (Kimi) of a call. Such a hint can deny a call but never allow it; only structured input can.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from tieline.backends.acp.fact_events import command_in, command_of, given_input, input_of
from tieline.model.content import Text
from tieline.wire.acp import facts

PATH_FIELDS = ("file_path", "filePath", "path", "abs_path", "file")
_FOLDER_FIELDS = ("cwd", "workdir", "working_directory", "directory")


class AgentAction(NamedTuple):
    """What an agent wants to do: the kind of the call in the protocol, the files, the command and its folder."""

    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    folder: str = ""
    is_change: bool = False
    """Whether it contains a change of these files."""
    hinted_commands: tuple[str, ...] = ()
    """Texts that may contain the command if `command` is empty. They can only deny."""
    hinted_paths: tuple[str, ...] = ()
    """Files that are named outside of structured input. They can only deny."""


class Ruling(NamedTuple):
    """The decision of the rules, and the reason."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""
    risk: str = ""
    """The risk of the action, in one sentence for the user."""
    is_protected: bool = False
    """Whether it concerns a protected file, for which no lasting permission may be given."""


NO_RULING = Ruling("ask")
"""No rule applies."""


class ActionRules(Protocol):
    """Decides what is allowed without asking and what is denied."""

    async def judge(self, action: AgentAction) -> Ruling: ...


def action_in(folder: str, call: facts.AgentCall) -> AgentAction:
    """Return the action of a call, with paths relative to this folder."""
    action = action_of(call)
    return action._replace(
        paths=tuple(posixpath.join(folder, path) for path in action.paths),
        folder=posixpath.join(folder, action.folder),
        hinted_paths=tuple(posixpath.join(folder, path) for path in action.hinted_paths),
    )


def action_of(call: facts.AgentCall) -> AgentAction:
    """Return the action of a call, as far as it is known."""
    given = input_of(call)
    reported = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    folders = [given.get(name) for name in _FOLDER_FIELDS]
    command = command_in(given)
    paths = tuple(dict.fromkeys([*reported, *_named_paths(given)]))
    return AgentAction(
        kind=call.kind or "other",
        paths=paths,
        command=command,
        folder=next((one for one in folders if isinstance(one, str)), ""),
        is_change=bool(call.diffs),
        hinted_commands=() if command else tuple(dict.fromkeys(_hints(call))),
        hinted_paths=tuple(path for path in _named_paths(given_input(call).fields) if path not in paths),
    )


def _named_paths(given: Mapping[str, Any]) -> list[str]:
    return [one for name in PATH_FIELDS if isinstance(one := given.get(name), str) and one]


def _hints(call: facts.AgentCall) -> Iterator[str]:
    """Yield texts that may contain the command, if it is not in the structured input."""
    if command := command_of(call):
        yield command
    if call.kind == "execute":
        yield call.title
        yield from (part.text for part in call.content if isinstance(part, Text))
        yield " ".join(_strings(input_of(call)))


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _strings(one)
        case dict():
            for one in value.values():
                yield from _strings(one)
        case _:
            pass
