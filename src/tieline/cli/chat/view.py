"""Shows answers in the terminal: finished parts are printed permanently; the rest is a live region below them."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text as Line

from tieline.cli.chat import cards, markdown
from tieline.cli.chat.layout import Indented, LayoutTail
from tieline.cli.chat.safe_text import prose
from tieline.model.content import File, Image, Part, Text, Thinking, ToolCall
from tieline.model.session import TimedActivity, Turn
from tieline.web.blocks import Blocks, RenderedPiece, find_cut

WIDTH = 100
"""Maximum width of text, so that lines stay readable."""
MAX_LIVE_TEXT = 4000
"""Maximum length of unfinished text that is shown as Markdown. Of longer text, only the end is shown, unformatted."""
PROMPT = "› "

Kind = Literal["text", "line", "card"]


class Piece(NamedTuple):
    """A part of an answer, or a tool call that happened between the parts."""

    content: Part | TimedActivity

    @property
    def is_running(self) -> bool:
        """Whether the piece is a tool call that is not finished."""
        content = self.content
        return isinstance(content, TimedActivity) and content.activity.status in ("pending", "in_progress")

    @property
    def ends_part(self) -> bool:
        """Whether this piece shows that the part before it is complete. A plan review can be inserted into a part."""
        return not isinstance(self.content, TimedActivity) or self.content.activity.kind != "plan"


class Shown(NamedTuple):
    """A renderable and its kind, which determines the space around it."""

    kind: Kind
    body: RenderableType


def pieces(turn: Turn) -> Iterator[Piece]:
    """Yield the parts and tool calls of a message in their order."""
    for index, part in enumerate(turn.parts):
        yield from (Piece(timed) for timed in turn.activities if timed.at == index)
        yield Piece(part)
    yield from (Piece(timed) for timed in turn.activities if timed.at >= len(turn.parts))


class AnswerView:
    """Shows one answer after another. `is_live` says whether the terminal can redraw the unfinished part."""

    def __init__(self, console: Console, *, is_live: bool, clock: Callable[[], float] = time.time) -> None:
        self._console = console
        self._is_live = is_live
        self._clock = clock
        self._live: Live | None = None
        self._last: Kind | None = None
        """The kind of what was printed last, or None at the beginning of an answer."""
        self._done = 0
        """How many pieces have been printed permanently."""
        self._blocks = Blocks()
        """The blocks of the text piece that is being printed."""
        self._began = 0.0
        self._seen: dict[int, float] = {}
        """When each thinking piece appeared."""

    def begin(self) -> None:
        """Start a new answer."""
        self.pause()
        self._last, self._done, self._blocks, self._seen = None, 0, Blocks(), {}
        self._began = self._clock()

    def show(self, turn: Turn, status: str) -> None:
        """Show the current state of the answer. `status` is a line below it."""
        finished = list(self._settled(turn, is_over=False))
        if self._is_live:
            self._update(turn, status, finished)
        else:
            self._print(finished)

    def flush(self, turn: Turn) -> None:
        """Print unfinished text permanently, so that it stays on the screen while a person is asked."""
        shown = list(self._settled(turn, is_over=False))
        unfinished = [piece.content for piece in list(pieces(turn))[self._done :]]
        if unfinished and isinstance(unfinished[0], Text):
            shown += self._text_blocks(unfinished[0].text, is_finished=True)
        self.pause()
        self._print(shown)

    def end(self, turn: Turn, *, is_timed: bool = True) -> None:
        """Show the complete answer, and how it ended."""
        finished = list(self._settled(turn, is_over=True))
        self.pause()
        if turn.plan is not None and turn.plan.entries:
            finished.append(Shown("card", cards.plan_card(turn.plan)))
        ending = cards.ending_line(turn.ending)
        if ending is not None:
            finished.append(Shown("card", ending))
        seconds = self._clock() - self._began if is_timed else 0.0
        finished.append(Shown("card", cards.footer(turn.model, turn.usage, seconds)))
        self._print(finished)
        self._console.print()
        self._last = None

    def exclude(self, seconds: float) -> None:
        """Exclude time that was spent asking a person from the duration of the answer."""
        self._began += seconds

    def pause(self) -> None:
        """Remove the live region, so that something else can be written."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def said(self, turn: Turn) -> None:
        """Show a user message that was not typed here."""
        self.quote(_said(turn))
        self._console.print()

    def quote(self, text: str) -> None:
        """Show a user message as if it had been typed here."""
        self.pause()
        self._console.print(Line.assemble((PROMPT, "bold"), "\n  ".join(prose(text).split("\n"))))

    def note(self, text: str, style: str = "dim") -> None:
        """Print a message from the program."""
        self.pause()
        self._console.print(Indented(Line(text, style=style)))

    def space(self) -> None:
        """Print an empty line, after which something new begins."""
        self.pause()
        self._console.print()
        self._last = None

    def print(self, body: RenderableType) -> None:
        """Print something, indented like an answer."""
        self.pause()
        self._print([Shown("card", body)])

    # ── Finished pieces ──────────────────────────────────────────────────────────────────────────

    def _settled(self, turn: Turn, *, is_over: bool) -> Iterator[Shown]:
        """Yield the pieces that have become ready to be printed permanently since the last call."""
        found = list(pieces(turn))
        while self._done < len(found):
            piece = found[self._done]
            if isinstance(piece.content, TimedActivity):
                is_finished = is_over or not piece.is_running
            else:
                is_finished = is_over or any(later.ends_part for later in found[self._done + 1 :])
            if isinstance(piece.content, Text):
                yield from self._text_blocks(piece.content.text, is_finished=is_finished)
            elif is_finished:
                yield from self._shown(self._done, piece, is_over=True)
            if not is_finished:
                return
            self._done += 1
            self._blocks = Blocks()

    def _text_blocks(self, text: str, *, is_finished: bool) -> Iterator[Shown]:
        """Yield the Markdown blocks that are complete."""
        blocks = self._blocks
        blocks.add(text[blocks.until + len(blocks.rest) :])
        cut = len(blocks.rest) if is_finished else find_cut(blocks.look()) if blocks.is_due else 0
        if cut:
            block = blocks.rest[:cut]
            blocks.cut(RenderedPiece(cut, ""))
            if block.strip():
                yield Shown("text", markdown.render(block))

    def _shown(self, index: int, piece: Piece, *, is_over: bool) -> Iterator[Shown]:
        """Yield a piece other than text as it looks now."""
        now = self._clock()
        match piece.content:
            case TimedActivity(activity=activity) as timed if activity.kind == "plan":
                yield Shown("card", cards.decided_plan(timed))
            case TimedActivity() as timed:
                rows = cards.tool_card(timed, now, is_over=is_over and piece.is_running)
                yield Shown("line" if len(rows) == 1 else "card", Group(*rows))
            case Thinking() as thinking:
                seconds = now - self._seen.setdefault(index, now)
                live = cards.live_thinking(thinking.text, seconds, self._console.width)
                yield Shown("line", cards.thought(seconds, is_hidden=thinking.redacted) if is_over else live)
            case ToolCall() as call:
                yield Shown("line", cards.client_call(call))
            case Image() | File() as file:
                yield Shown("line", Line(f"[{file.media_type or 'file'}]", style="dim"))
            case _:
                pass

    # ── The screen ───────────────────────────────────────────────────────────────────────────────

    def _update(self, turn: Turn, status: str, finished: Sequence[Shown]) -> None:
        shown = [*self._unfinished(turn)]
        if turn.plan is not None and turn.plan.entries:
            shown.append(Shown("card", cards.plan_card(turn.plan)))
        shown.append(Shown("card", Line(f"{cards.spinner(self._clock())} {status}", style="dim")))
        last = finished[-1].kind if finished else self._last
        region = LayoutTail(Group(*self._spaced(shown, last)), self._console.height - 1)
        if self._live is None:
            self._print(finished)
            self._live = Live(
                region,
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start(refresh=True)
            return
        self._live.update(region, refresh=not finished)
        self._print(finished)

    def _unfinished(self, turn: Turn) -> Iterator[Shown]:
        for index, piece in enumerate(pieces(turn)):
            if index < self._done:
                continue
            if isinstance(piece.content, Text):
                text = self._blocks.rest if index == self._done else piece.content.text
                if text.strip():
                    yield Shown("text", _live_text(text))
            else:
                yield from self._shown(index, piece, is_over=False)

    def _print(self, shown: Sequence[Shown]) -> None:
        if shown:
            self._console.print(Group(*self._spaced(shown, self._last)))
            self._last = shown[-1].kind

    def _spaced(self, shown: Sequence[Shown], last: Kind | None) -> Iterator[RenderableType]:
        """Yield the renderables, indented, with empty lines between them, except between two of the kind "line"."""
        for kind, body in shown:
            if last is not None and not (last == kind == "line"):
                yield Line()
            yield Indented(body, width=WIDTH)
            last = kind


def _live_text(text: str) -> RenderableType:
    if len(text) <= MAX_LIVE_TEXT:
        return markdown.render(text)
    return Line(prose(text[-MAX_LIVE_TEXT:]))


def _said(turn: Turn) -> str:
    """Return the text of a user message, and the names of its attachments."""
    words = [part.text for part in turn.parts if isinstance(part, Text)]
    files = [f"[{part.name or part.media_type}]" for part in turn.parts if isinstance(part, File)]
    images = ["[image]" for part in turn.parts if isinstance(part, Image)]
    return "\n".join([*words, *files, *images])
