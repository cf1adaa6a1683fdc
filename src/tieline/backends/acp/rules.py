"""What may be decided about an agent's wishes before a person is asked: a seam for the rules of whoever runs us.

What an agent wants to do is what it says of it: it runs with rights of its own and asks of its own accord. So the rules
see the same that a person would see, and where they cannot tell, the person is asked.
"""

from typing import Literal, NamedTuple, Protocol

from tieline.backends.acp.activity import command_in, input_of
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


def deed_of(call: facts.Call) -> Deed:
    """What a call would do, as far as it is told."""
    given = input_of(call)
    told = [place.path for place in call.locations] + [diff.path for diff in call.diffs]
    named = [given.get(name) for name in PATH_FIELDS]
    folders = [given.get(name) for name in _FOLDER_FIELDS]
    return Deed(
        kind=call.kind or "other",
        paths=tuple(dict.fromkeys([*told, *(one for one in named if isinstance(one, str) and one)])),
        command=command_in(given),
        folder=next((one for one in folders if isinstance(one, str)), ""),
        is_change=bool(call.diffs),
    )
