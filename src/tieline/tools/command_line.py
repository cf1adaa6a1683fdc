"""Splits command lines into words the way a shell does, as far as permissions depend on it.

`simple_command` is strict: it returns the words of a command only if a shell would run exactly one program with exactly
these words, and None in every doubtful case (operators, expansions, redirections, assignments, comments, unfinished
quotes). `loose_words` is the opposite: it returns every word that could be part of some command in the text.
"""

import re

_ASSIGNMENT = re.compile(r"\w+(\[.*\])?\+?=", re.DOTALL)
_QUOTES = re.compile(r"\\\n|[\"'\\]")
_OPERATORS = re.compile(r"[\s;&|<>(){}`$,=]+")
_SPECIAL = frozenset(";&|<>()`$#\n\r")
_ESCAPED_IN_QUOTES = frozenset('"\\$`')
_RESERVED = frozenset(
    re.findall(
        r"\S+", "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while"
    )
)


def simple_command(line: str) -> list[str] | None:
    """Return the words of a command line that is one simple command; None if it is or may be anything else."""
    reader = _WordReader(line)
    words = reader.words()
    if not words or reader.is_unclear or words[0] in _RESERVED or _ASSIGNMENT.match(words[0]):
        return None
    return words


def loose_words(line: str) -> list[str]:
    """Return everything between blanks and operators, in order, ignoring quotes."""
    return [word for word in _OPERATORS.split(_QUOTES.sub("", line)) if word]


class _WordReader:
    """Reads the words of one command line from left to right."""

    def __init__(self, line: str) -> None:
        self.rest = iter(line)
        self.is_unclear = False
        self.found: list[str] = []
        self.word: list[str] | None = None

    def words(self) -> list[str]:
        for character in self.rest:
            if self.is_unclear:
                break
            self.read(character)
        self.finish()
        return self.found

    def read(self, character: str) -> None:
        match character:
            case " " | "\t":
                self.finish()
            case "'":
                self.single_quoted()
            case '"':
                self.double_quoted()
            case "\\":
                self.escaped()
            case _ if character in _SPECIAL or not character.isprintable():
                self.is_unclear = True
            case _:
                self.add(character)

    def add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def finish(self) -> None:
        if self.word is not None:
            self.found.append("".join(self.word))
            self.word = None

    def escaped(self) -> None:
        following = next(self.rest, "\n")
        self.is_unclear = self.is_unclear or following == "\n"
        self.add(following)

    def single_quoted(self) -> None:
        self.add("")
        for character in self.rest:
            if character == "'":
                return
            self.add(character)
        self.is_unclear = True

    def double_quoted(self) -> None:
        self.add("")
        for character in self.rest:
            if character == '"':
                return
            if character in "$`":
                break
            if character != "\\":
                self.add(character)
                continue
            following = next(self.rest, "")
            if following in ("", "\n"):
                break
            self.add(following if following in _ESCAPED_IN_QUOTES else f"\\{following}")
        self.is_unclear = True
