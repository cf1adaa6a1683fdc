"""Regular expressions of others, matched in bounded time.

A pattern in a form comes from an agent, and a backtracking matcher may need hours for the wrong one. This one keeps the
set of all states a pattern can be in, character by character: the time is at most the number of states times the
length of the text, and both are bounded. Patterns that need more than a state, such as backreferences, lookarounds and
word boundaries, are not supported.
"""

import re
from typing import NamedTuple

MAX_PATTERN = 500
MAX_TEXT = 256
MAX_STATES = 256
MAX_DEPTH = 20

_COUNTED = re.compile(r"\{(\d{1,3})(?:(,)(\d{1,3})?)?\}")
_ESCAPE = re.compile(r"\\(?:[dDwWsSnrtfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])")
_SPELLED_OUT = frozenset("[&~|-")
"""Characters of a set that mean something to Python in certain places, and themselves in all others."""
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_CHAR, _SPLIT, _START, _END, _MATCH = range(5)


class Unsupported(ValueError):
    """A pattern that cannot be matched here."""


class _Instruction(NamedTuple):
    kind: int
    one: re.Pattern[str] | None = None
    """Matches the one character that a state takes."""
    ways: tuple[int, ...] = ()
    """Where a split leads."""


class _Node(NamedTuple):
    """A piece of a pattern: one character, an edge, one piece after another, a choice, or a repetition."""

    kind: str
    text: str = ""
    inner: tuple["_Node", ...] = ()
    least: int = 0
    most: int | None = None


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text; raise Unsupported if that cannot be determined here."""
    if len(pattern) > MAX_PATTERN or len(text) > MAX_TEXT:
        raise Unsupported("the pattern or the text is too long")
    program = _Compiler().program(_Parser(pattern).parse())
    states: set[int] = set()
    for at in range(len(text) + 1):
        states = _closure(program, states | {0}, at == 0, at == len(text))
        if len(program) - 1 in states:
            return True
        if at < len(text):
            states = {state + 1 for state in states if (one := program[state].one) and one.fullmatch(text[at])}
    return False


def _closure(program: list[_Instruction], states: set[int], is_start: bool, is_end: bool) -> set[int]:
    """All states that can be reached without taking a character."""
    found: set[int] = set()
    waiting = [*states]
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        found.add(state)
        kind, _, ways = program[state]
        if kind == _SPLIT:
            waiting += ways
        elif (kind == _START and is_start) or (kind == _END and is_end):
            waiting.append(state + 1)
    return found


class _Parser:
    """Reads a pattern into nodes."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> _Node:
        node = self._choice()
        if self._at < len(self._pattern):
            raise Unsupported("a bracket is not opened")
        return node

    def _choice(self) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unsupported("the pattern is nested too deeply")
        ways = [self._row()]
        while self._takes("|"):
            ways.append(self._row())
        self._depth -= 1
        return ways[0] if len(ways) == 1 else _Node("choice", inner=tuple(ways))

    def _row(self) -> _Node:
        pieces = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            pieces.append(self._repeated(self._piece()))
        return _Node("row", inner=tuple(pieces))

    def _repeated(self, node: _Node) -> _Node:
        counted = _COUNTED.match(self._pattern, self._at)
        if counted is not None:
            self._at = counted.end()
            least = int(counted[1])
            most = (int(counted[3]) if counted[3] else None) if counted[2] else least
            node = _Node("repeat", inner=(node,), least=least, most=most)
        elif self._next() in _SIMPLE:
            least, most = _SIMPLE[self._pattern[self._at]]
            self._at += 1
            node = _Node("repeat", inner=(node,), least=least, most=most)
        else:
            return node
        if node.inner[0].kind in ("start", "end"):
            raise Unsupported("an edge is repeated")
        self._takes("?")  # lazy: what is found is the same
        if self._next() in {*_SIMPLE, "{"}:
            raise Unsupported("a repetition is repeated")
        return node

    def _piece(self) -> _Node:
        char = self._pattern[self._at]
        if char == "\\":
            return _Node("one", self._escape())
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return _Node("one", self._set())
        if char in "^$":
            return _Node("start" if char == "^" else "end")
        if char in "*+?{":
            raise Unsupported("there is nothing to repeat")
        return _Node("one", char if char == "." else re.escape(char))

    def _group(self) -> _Node:
        if self._takes("?") and not self._takes(":"):
            raise Unsupported("only plain groups are supported")
        node = self._choice()
        if not self._takes(")"):
            raise Unsupported("a bracket is not closed")
        return node

    def _escape(self) -> str:
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            raise Unsupported("an escape is not supported")
        self._at = found.end()
        return found[0]

    def _set(self) -> str:
        text = "[^" if self._takes("^") else "["
        first = self._at
        while self._next() != "]":
            char = self._next()
            if not char:
                raise Unsupported("a bracket is not closed")
            if char == "\\":
                text += self._escape()
                continue
            is_range = char == "-" and self._at > first and self._pattern[self._at + 1 : self._at + 2] not in ("]", "-")
            text += char if is_range or char not in _SPELLED_OUT else f"\\{char}"
            self._at += 1
        if self._at == first:
            raise Unsupported("a set is empty")
        self._at += 1
        return text + "]"

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _takes(self, char: str) -> bool:
        taken = self._next() == char
        self._at += taken
        return taken


class _Compiler:
    """Turns nodes into instructions; both their number and the visits of nodes are bounded."""

    def __init__(self) -> None:
        self._program: list[_Instruction] = []
        self._visits = 0

    def program(self, node: _Node) -> list[_Instruction]:
        self._write(node)
        return [*self._program, _Instruction(_MATCH)]

    def _write(self, node: _Node) -> None:
        self._visits += 1
        if self._visits > 4 * MAX_STATES:
            raise Unsupported("the pattern is too large")
        match node.kind:
            case "one":
                self._add(_Instruction(_CHAR, _one(node.text)))
            case "start" | "end":
                self._add(_Instruction(_START if node.kind == "start" else _END))
            case "row":
                for piece in node.inner:
                    self._write(piece)
            case "choice":
                self._write_choice(node.inner)
            case _:
                self._write_repeat(node)

    def _write_choice(self, ways: tuple[_Node, ...]) -> None:
        split = self._add(_Instruction(_SPLIT))
        starts, ends = [], []
        for way in ways:
            starts.append(len(self._program))
            self._write(way)
            ends.append(self._add(_Instruction(_SPLIT)))
        self._program[split] = _Instruction(_SPLIT, ways=tuple(starts))
        for end in ends:
            self._program[end] = _Instruction(_SPLIT, ways=(len(self._program),))

    def _write_repeat(self, node: _Node) -> None:
        (inner,) = node.inner
        for _ in range(node.least):
            self._write(inner)
        if node.most is None:
            split = self._add(_Instruction(_SPLIT))
            self._write(inner)
            self._add(_Instruction(_SPLIT, ways=(split,)))
            self._program[split] = _Instruction(_SPLIT, ways=(split + 1, len(self._program)))
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._add(_Instruction(_SPLIT)))
            self._write(inner)
        for split in splits:
            self._program[split] = _Instruction(_SPLIT, ways=(split + 1, len(self._program)))

    def _add(self, instruction: _Instruction) -> int:
        if len(self._program) >= MAX_STATES:
            raise Unsupported("the pattern is too large")
        self._program.append(instruction)
        return len(self._program) - 1


def _one(text: str) -> re.Pattern[str]:
    """A pattern of one character, which Python's matcher decides in no time."""
    try:
        return re.compile(text)
    except re.error as error:
        raise Unsupported(str(error)) from error
