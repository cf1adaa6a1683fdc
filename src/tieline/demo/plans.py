"""Plain words to a plan: which wishes to fulfil, what at the same time and what after what.

The words are cut into clauses at "and", "," (at the same time) and "then" or a new sentence or line (one after the
other), but never inside quotes, backticks, brackets or fenced blocks. A clause that makes no sense by itself is tried
together with the next ones, so that "write salt, pepper to a.txt" is one wish. A long text is no plain request.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from tieline.demo.wishes import Wish, again, is_open_command, understand
from tieline.model.content import Value

Cut = Literal["and", "then", "stop", "line"]

MAX_WORDS = 20_000
MAX_UNQUOTED = 2_000
MAX_CLAUSES = 60
MAX_JOINED = 8


class _Clause(Value):
    start: int
    end: int
    cut: Cut
    """What stands before it."""


_PROTECTED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”"
    r"|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|(?<=\w)\([^()\n]*\)",
    re.DOTALL,
)
_CUT = re.compile(
    r"(?P<then>[\s,;.]{0,4}\b(?:and\s{1,3})?(?:then|after that|afterwards)\b[\s,:]{0,4})"
    r"|(?P<stop>[.;!]\s{1,4}(?=(?-i:[A-Z])))"
    r"|(?P<line>\s{0,4}\n\s*(?:(?:\d{1,2}[.)]|[-*])\s)?)"
    r"|(?P<and>\s{0,3},\s{0,3}(?:and\s{1,3})?(?:also\s{1,3})?|\s{1,3}and\s{1,3}(?:also\s{1,3})?)",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"(?:tell|say|reply|respond|report|summari[sz]e|explain|let me|give me|describe|answer|return|confirm|thank"
    r"|stop|do (?:it|so|this|not)|don'?t|nothing else|finish|show me (?:the |its )?(?:results?|outputs?|contents?)$)\b",
    re.IGNORECASE,
)


def plan(words: str, tools: Sequence[str]) -> tuple[tuple[Wish, ...], ...]:
    """The steps the user asks for, each with the wishes that may be done at once."""
    if len(words) > MAX_WORDS:
        return ()
    masked = _PROTECTED.sub(lambda found: "\0" * len(found[0]), words)
    clauses = list(_clauses(masked))
    if len(masked) - masked.count("\0") > MAX_UNQUOTED or len(clauses) > MAX_CLAUSES:
        return ()
    return _Planner(words, clauses, tools).steps()


def _clauses(masked: str) -> Iterator[_Clause]:
    start = 0
    cut: Cut = "stop"
    for found in _CUT.finditer(masked):
        following: Cut = next(kind for kind in get_args(Cut) if found[kind] is not None)
        if masked[start : found.start()].strip():
            yield _Clause(start=start, end=found.start(), cut=cut)
        elif following == "and":
            # Nothing between two cuts: the stronger of them counts.
            following = cut
        start, cut = found.end(), following
    if masked[start:].strip():
        yield _Clause(start=start, end=len(masked), cut=cut)


class _Planner:
    """Walks over the clauses and gathers wishes into steps."""

    def __init__(self, words: str, clauses: list[_Clause], tools: Sequence[str]) -> None:
        self._words = words
        self._clauses = clauses
        self._tools = tools
        self._alone = [self._wish(at, at + 1) for at in range(len(clauses))]

    def steps(self) -> tuple[tuple[Wish, ...], ...]:
        steps: list[list[Wish]] = []
        at, is_later = 0, True
        while at < len(self._clauses):
            is_later = is_later or self._clauses[at].cut != "and"
            wish, end = self._next(at)
            if wish is None and steps and (not is_later or self._clauses[at].cut == "then"):
                wish = again(steps[-1][-1], self._text(at, at + 1))
                is_later = is_later or (wish is not None and wish.kind != steps[-1][-1].kind)
            if wish is not None:
                if is_later:
                    steps.append([])
                steps[-1].append(wish)
                is_later = False
            at = end
        return tuple(map(tuple, steps))

    def _next(self, at: int) -> tuple[Wish | None, int]:
        """The wish that begins at a clause and where it ends, if need be several clauses later."""
        for end in range(at + 1, min(at + MAX_JOINED, len(self._clauses)) + 1):
            if end > at + 1 and self._alone[end - 1] is not None:
                break
            if wish := self._wish(at, end):
                return self._extended(wish, at, end)
        return None, at + 1

    def _extended(self, wish: Wish, at: int, end: int) -> tuple[Wish, int]:
        """A command or a content goes on over "and" and ",", a `run: …` to the end of its line."""
        is_exact = is_open_command(self._text(at, end))
        while end < len(self._clauses) and not self._is_quoted(end - 1) and not self._begins(end):
            cut = self._clauses[end].cut
            longer = self._wish(at, end + 1) if cut == "and" or (is_exact and cut != "line") else None
            if longer is None or _frame(longer) != _frame(wish):
                break
            wish, end = longer, end + 1
        return wish, end

    def _begins(self, at: int) -> bool:
        """Whether a clause is something of its own."""
        return self._alone[at] is not None or _CHATTER.match(self._text(at, at + 1)) is not None

    def _wish(self, at: int, end: int) -> Wish | None:
        return understand(self._text(at, end), self._tools)

    def _text(self, at: int, end: int) -> str:
        return self._words[self._clauses[at].start : self._clauses[end - 1].end]

    def _is_quoted(self, at: int) -> bool:
        return self._text(at, at + 1).rstrip()[-1:] in ("`", '"', "'", "”", "}", ")")


def _frame(wish: Wish) -> Wish:
    """A wish without what may go on: more words must not change what is wished."""
    return replace(wish, command="", content="", new="", words="")
