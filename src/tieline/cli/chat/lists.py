"""Lists that a chat shows: models, modes, conversations and commands."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from tieline.cli.chat import slash
from tieline.cli.chat.safe_text import one_line
from tieline.model.session import Summary

MAX_LISTED = 200


def choices(names: Iterable[str], current: str) -> RenderableType:
    """Return names, one per line, with a mark at the current one."""
    rows = [Text.assemble(("● " if name == current else "  ", "green"), one_line(name, 100)) for name in names]
    if len(rows) > MAX_LISTED:
        rows[MAX_LISTED:] = [Text(f"  … and {len(rows) - MAX_LISTED} more", style="dim")]
    return Text("\n").join(rows)


def conversations(sessions: Sequence[Summary], current: str | None, now: float) -> RenderableType:
    """Return conversations with their numbers."""
    rows = [
        Text.assemble(
            ("● " if one.id == current else "  ", "green"),
            (f"{number:>2} ", "dim"),
            one_line(one.title, 60),
            (f"  {one_line(one.model, 40)} · {age(now - one.updated)}", "dim"),
        )
        for number, one in enumerate(sessions, 1)
    ]
    return Text("\n").join(rows)


def commands() -> RenderableType:
    """Return the commands and keys."""
    return Text("\n".join([*slash.help_lines(), "", slash.HELP_AFTER]))


def age(seconds: float) -> str:
    """Return how long ago something was."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
