"""What may be decided about an agent's wishes before a person is asked: a seam for the rules of whoever runs us.

What an agent wants to do is what it says of it: it runs with rights of its own and asks of its own accord. So the rules
see the same that the user would see, and where they cannot tell, the user is asked. Some agents tell a command only in
the title (Gemini) or in the content (Kimi) of a call. That is enough to deny it, and never enough to allow it: only
structured input allows.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from tieline.backends.acp.activity import command_in, command_of, given_input, input_of
from tieline.model.content import Text
from tieline.wire.acp import facts

PATH_FIELDS = ("file_path", "filePath", "path", "abs_path", "file")
_FOLDER_FIELDS = ("cwd", "workdir", "working_directory", "directory")


class Deed(NamedTuple):
    """What an agent wants to do: its kind as the protocol has it, the files it is about, what it runs and where."""

    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    folder: str = ""
    is_change: bool = False
    """Whether it tells of a change of these files."""
    hinted_commands: tuple[str, ...] = ()
    """Texts that hold the command if `command` is not known: they can only deny."""
    hinted_paths: tuple[str, ...] = ()
    """Files that are named somewhere else than in `paths`: they can only deny."""


class Ruled(NamedTuple):
    """What the rules say of it, and why."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""
    risk: str = ""
    """What is risky about it, in one sentence for the person who is asked."""
    is_protected: bool = False
    """Whether it concerns a file that no lasting permission may cover."""


UNRULED = Ruled("ask")
"""No rule says anything about it."""


class Rules(Protocol):
    """Whoever knows what may be done without asking, and what may not be done at all."""

    async def judge(self, deed: Deed) -> Ruled: ...


def deed_in(folder: str, call: facts.Call) -> Deed:
    """What a call of an agent that works in this folder would do: paths count from there."""
    deed = deed_of(call)
    return deed._replace(
        paths=tuple(posixpath.join(folder, path) for path in deed.paths),
        folder=posixpath.join(folder, deed.folder),
        hinted_paths=tuple(posixpath.join(folder, path) for path in deed.hinted_paths),
    )


def deed_of(call: facts.Call) -> Deed:
    """What a call would do, as far as it is told."""
    given = input_of(call)
    told = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    folders = [given.get(name) for name in _FOLDER_FIELDS]
    command = command_in(given)
    paths = tuple(dict.fromkeys([*told, *_named_paths(given)]))
    return Deed(
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


def _hints(call: facts.Call) -> Iterator[str]:
    """Where a command may stand that the structured input does not tell."""
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
