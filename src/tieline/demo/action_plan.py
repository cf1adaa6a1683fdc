"""Convert the user's text to a plan: the actions to perform, in parallel or one after another.

The text is split into clauses at "and" and "," (actions in parallel), and at "then", a new sentence or a new line
(actions in sequence), but never inside quotes, backticks, brackets or fenced blocks. A clause that is not an action by
itself is joined with the clauses after it, so that "write salt, pepper to a.txt" is one action. A very long text yields
no actions.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from tieline.demo.actions import Action, is_open_ended, parse_action, repeat_action
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
    """The kind of separator before this clause."""


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


def plan_actions(words: str, tools: Sequence[str]) -> tuple[tuple[Action, ...], ...]:
    """Return the steps that the user requests. Each step is a group of actions that can run in parallel.

    `tools` are the names of the tools that the client offers.
    """
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
            # Two separators in a row: the stronger one applies.
            following = cut
        start, cut = found.end(), following
    if masked[start:].strip():
        yield _Clause(start=start, end=len(masked), cut=cut)


class _Planner:
    """Groups the actions in a list of clauses into steps."""

    def __init__(self, words: str, clauses: list[_Clause], tools: Sequence[str]) -> None:
        self._words = words
        self._clauses = clauses
        self._tools = tools
        self._alone = [self._wish(at, at + 1) for at in range(len(clauses))]

    def steps(self) -> tuple[tuple[Action, ...], ...]:
        steps: list[list[Action]] = []
        at, is_later = 0, True
        while at < len(self._clauses):
            is_later = is_later or self._clauses[at].cut != "and"
            action, end = self._next(at)
            if action is None and steps and (not is_later or self._clauses[at].cut == "then"):
                action = repeat_action(steps[-1][-1], self._text(at, at + 1))
                is_later = is_later or (action is not None and action.kind != steps[-1][-1].kind)
            if action is not None:
                if is_later:
                    steps.append([])
                steps[-1].append(action)
                is_later = False
            at = end
        return tuple(map(tuple, steps))

    def _next(self, at: int) -> tuple[Action | None, int]:
        """Return the action that begins at the clause `at`, if there is one, and the index of the next clause."""
        for end in range(at + 1, min(at + MAX_JOINED, len(self._clauses)) + 1):
            if end > at + 1 and self._alone[end - 1] is not None:
                break
            if action := self._wish(at, end):
                return self._extended(action, at, end)
        return None, at + 1

    def _extended(self, action: Action, at: int, end: int) -> tuple[Action, int]:
        """Extend an action by the clauses that continue its command or content.

        This is needed because a command or content may itself contain "and" or ",". A command after `run:` extends to
        the end of its line. The action consists of the clauses from `at` up to, but not including, `end`. Return the
        extended action and its new `end`.
        """
        is_exact = is_open_ended(self._text(at, end))
        while end < len(self._clauses) and not self._is_quoted(end - 1) and not self._begins(end):
            cut = self._clauses[end].cut
            longer = self._wish(at, end + 1) if cut == "and" or (is_exact and cut != "line") else None
            if longer is None or _frame(longer) != _frame(action):
                break
            action, end = longer, end + 1
        return action, end

    def _begins(self, at: int) -> bool:
        """Return whether the clause `at` stands on its own, so that it does not continue the clause before it."""
        return self._alone[at] is not None or _CHATTER.match(self._text(at, at + 1)) is not None

    def _wish(self, at: int, end: int) -> Action | None:
        return parse_action(self._text(at, end), self._tools)

    def _text(self, at: int, end: int) -> str:
        return self._words[self._clauses[at].start : self._clauses[end - 1].end]

    def _is_quoted(self, at: int) -> bool:
        return self._text(at, at + 1).rstrip()[-1:] in ("`", '"', "'", "”", "}", ")")


def _frame(action: Action) -> Action:
    """Return a copy of an action without the fields that joining further clauses may change."""
    return replace(action, command="", content="", new="", words="")
