"""Match untrusted regular expressions in bounded time.

The agent that asks a question sets the pattern for the answer. A backtracking matcher could take exponential time.
This matcher simulates a nondeterministic automaton. Its running time is proportional to the number of states times the
length of the text, and both are bounded. Backreferences, lookarounds and word boundaries are not supported.
"""

import re
from typing import NamedTuple

MAX_PATTERN = 500
MAX_TEXT = 256
MAX_STATES = 256
MAX_DEPTH = 20

_COUNTED = re.compile(r"\{(\d{1,3})(?:(,)(\d{1,3})?)?\}")
_ESCAPE = re.compile(r"\\(?:[dDwWsSnrtfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])")
_ESCAPED_IN_SETS = frozenset("[&~|-")
"""Characters that can have a special meaning inside a character set in Python's `re`; the parser escapes them."""
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_CHAR, _SPLIT, _START, _END, _MATCH = range(5)


class UnsupportedPattern(ValueError):
    """The pattern is invalid, too large, or uses an unsupported construct."""


class _Instruction(NamedTuple):
    kind: int
    one: re.Pattern[str] | None = None
    """For `_CHAR`: the pattern that the next character must match."""
    ways: tuple[int, ...] = ()
    """For `_SPLIT`: the next states, as indices into the program."""


class _PatternNode(NamedTuple):
    """A node of the syntax tree: one character, an anchor, a sequence, a choice or a repetition."""

    kind: str
    text: str = ""
    inner: tuple["_PatternNode", ...] = ()
    least: int = 0
    most: int | None = None


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text. Raise UnsupportedPattern if this cannot be checked."""
    if len(pattern) > MAX_PATTERN or len(text) > MAX_TEXT:
        raise UnsupportedPattern("the pattern or the text is too long")
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
    """Return all states that can be reached from `states` without consuming a character.

    `is_start` and `is_end` say whether the current position is the start or the end of the text.
    """
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
    """Parses a pattern into a syntax tree."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> _PatternNode:
        node = self._choice()
        if self._at < len(self._pattern):
            raise UnsupportedPattern("unbalanced closing parenthesis")
        return node

    def _choice(self) -> _PatternNode:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsupportedPattern("the pattern is nested too deeply")
        ways = [self._row()]
        while self._takes("|"):
            ways.append(self._row())
        self._depth -= 1
        return ways[0] if len(ways) == 1 else _PatternNode("choice", inner=tuple(ways))

    def _row(self) -> _PatternNode:
        pieces = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            pieces.append(self._repeated(self._piece()))
        return _PatternNode("row", inner=tuple(pieces))

    def _repeated(self, node: _PatternNode) -> _PatternNode:
        counted = _COUNTED.match(self._pattern, self._at)
        if counted is not None:
            self._at = counted.end()
            least = int(counted[1])
            most = (int(counted[3]) if counted[3] else None) if counted[2] else least
            node = _PatternNode("repeat", inner=(node,), least=least, most=most)
        elif self._next() in _SIMPLE:
            least, most = _SIMPLE[self._pattern[self._at]]
            self._at += 1
            node = _PatternNode("repeat", inner=(node,), least=least, most=most)
        else:
            return node
        if node.inner[0].kind in ("start", "end"):
            raise UnsupportedPattern("repeated anchor")
        self._takes("?")  # a lazy quantifier does not change whether there is a match
        if self._next() in {*_SIMPLE, "{"}:
            raise UnsupportedPattern("repeated quantifier")
        return node

    def _piece(self) -> _PatternNode:
        char = self._pattern[self._at]
        if char == "\\":
            return _PatternNode("one", self._escape())
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return _PatternNode("one", self._set())
        if char in "^$":
            return _PatternNode("start" if char == "^" else "end")
        if char in "*+?{":
            raise UnsupportedPattern("quantifier without an operand")
        return _PatternNode("one", char if char == "." else re.escape(char))

    def _group(self) -> _PatternNode:
        if self._takes("?") and not self._takes(":"):
            raise UnsupportedPattern("only plain groups are supported")
        node = self._choice()
        if not self._takes(")"):
            raise UnsupportedPattern("missing closing parenthesis")
        return node

    def _escape(self) -> str:
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            raise UnsupportedPattern("unsupported escape sequence")
        self._at = found.end()
        return found[0]

    def _set(self) -> str:
        text = "[^" if self._takes("^") else "["
        first = self._at
        while self._next() != "]":
            char = self._next()
            if not char:
                raise UnsupportedPattern("missing closing bracket")
            if char == "\\":
                text += self._escape()
                continue
            is_range = char == "-" and self._at > first and self._pattern[self._at + 1 : self._at + 2] not in ("]", "-")
            text += char if is_range or char not in _ESCAPED_IN_SETS else f"\\{char}"
            self._at += 1
        if self._at == first:
            raise UnsupportedPattern("empty character set")
        self._at += 1
        return text + "]"

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _takes(self, char: str) -> bool:
        taken = self._next() == char
        self._at += taken
        return taken


class _Compiler:
    """Compiles a syntax tree into instructions. It limits the number of instructions and of visited nodes."""

    def __init__(self) -> None:
        self._program: list[_Instruction] = []
        self._visits = 0

    def program(self, node: _PatternNode) -> list[_Instruction]:
        self._write(node)
        return [*self._program, _Instruction(_MATCH)]

    def _write(self, node: _PatternNode) -> None:
        self._visits += 1
        if self._visits > 4 * MAX_STATES:
            raise UnsupportedPattern("the pattern is too large")
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

    def _write_choice(self, ways: tuple[_PatternNode, ...]) -> None:
        split = self._add(_Instruction(_SPLIT))
        starts, ends = [], []
        for way in ways:
            starts.append(len(self._program))
            self._write(way)
            ends.append(self._add(_Instruction(_SPLIT)))
        self._program[split] = _Instruction(_SPLIT, ways=tuple(starts))
        for end in ends:
            self._program[end] = _Instruction(_SPLIT, ways=(len(self._program),))

    def _write_repeat(self, node: _PatternNode) -> None:
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
            raise UnsupportedPattern("the pattern is too large")
        self._program.append(instruction)
        return len(self._program) - 1


def _one(text: str) -> re.Pattern[str]:
    """Compile a pattern for a single character, which Python's `re` matches in constant time."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UnsupportedPattern(str(error)) from error
