"""Lays out renderables: indents them, limits their width, and shows only the end of those that are too tall."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

INDENT = 2


class Indented:
    """Another renderable, indented, without spaces at the ends of lines and without empty lines around it.

    Lines are not padded to the width of the terminal: padded lines would wrap if the terminal measures characters
    differently or is made narrower.
    """

    def __init__(self, body: RenderableType, by: int = INDENT, width: int | None = None) -> None:
        self._body = body
        self._by = by
        self._width = width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - self._by)
        inner = options.update(width=min(width, self._width or width), height=None)
        lines = [_trimmed(line) for line in console.render_lines(self._body, inner, pad=False)]
        full = [at for at, line in enumerate(lines) if line]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            if line:
                yield Segment(" " * self._by)
                yield from line
            yield Segment.line()


class LayoutTail:
    """Shows only the last `height` rows of another renderable."""

    def __init__(self, body: RenderableType, height: int) -> None:
        self._body = body
        self._height = max(1, height)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._body, options.update(height=None), pad=False)
        for number, line in enumerate(lines[-self._height :]):
            if number:
                yield Segment.line()
            yield from line


def _trimmed(line: Sequence[Segment]) -> list[Segment]:
    """Return the line without spaces at its end."""
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        last = kept[-1]
        kept[-1] = Segment(last.text.rstrip(), last.style, last.control)
    return kept
