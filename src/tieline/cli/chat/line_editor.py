"""A line editor without I/O: applies keys to text of one or more lines, with history and completion."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from tieline.cli.chat.keys import Key
from tieline.cli.chat.safe_text import prose

Complete = Callable[[str], Sequence[str]]
"""Returns the texts that could replace the text before the cursor."""

MAX_LENGTH = 1 << 20
SHOWN_BEFORE = 4000
SHOWN_AFTER = 1000
"""How many characters before and after the cursor are shown. The rest of a long pasted text is hidden."""
MAX_HISTORY = 500
MAX_REMEMBERED = 10_000
"""Maximum length of a text in the history."""
TAB = "    "

_WORD_BEFORE = re.compile(r"\w*\W*$")
_WORD_AFTER = re.compile(r"\W*\w*")


class Submitted(NamedTuple):
    """The user finished the text with Enter."""

    text: str


class Interrupted(NamedTuple):
    """The user pressed Ctrl-C, which discards the text."""

    text: str


class EndOfInput(NamedTuple):
    """The user pressed Ctrl-D while the text was empty."""


class CompletionChoices(NamedTuple):
    """The user pressed Tab, and there are several completions."""

    texts: Sequence[str]


Outcome = Submitted | Interrupted | EndOfInput | CompletionChoices


class Layout(NamedTuple):
    """The rows of a text on the screen, and the position of the cursor in them."""

    rows: list[str]
    row: int
    column: int


def no_completion(_: str) -> Sequence[str]:
    """Complete nothing."""
    return ()


class LineEditor:
    """Text that is being typed. A line that ends with a backslash continues on the next line."""

    def __init__(self, history: Sequence[str] = (), complete: Complete = no_completion) -> None:
        self.text = ""
        self.cursor = 0
        self.history = list(history)[-MAX_HISTORY:]
        self._complete = complete
        self._place = len(self.history)
        """The position in the history. The length of the history stands for the text being typed."""
        self._unsent = ""
        """The text that was being typed before the user went back in the history."""
        self._killed = ""
        self._actions: dict[str, Callable[[], Outcome | None]] = {
            "enter": self._enter,
            "newline": lambda: self._insert("\n"),
            "tab": self._tab,
            "interrupt": lambda: Interrupted(self._take()),
            "end-of-input": lambda: self._delete(1) if self.text else EndOfInput(),
            "backspace": lambda: self._delete(-1),
            "delete": lambda: self._delete(1),
            "left": lambda: self._move(self.cursor - 1),
            "right": lambda: self._move(self.cursor + 1),
            "word-left": lambda: self._move(self._word_start()),
            "word-right": lambda: self._move(self._word_end()),
            "home": lambda: self._move(self.text.rfind("\n", 0, self.cursor) + 1),
            "end": lambda: self._move(self._line_end()),
            "kill-to-end": lambda: self._kill(self.cursor, max(self._line_end(), self.cursor + 1)),
            "kill-to-start": lambda: self._kill(self.text.rfind("\n", 0, self.cursor) + 1, self.cursor),
            "kill-word": lambda: self._kill(self._word_start(), self.cursor),
            "yank": lambda: self._insert(self._killed),
            "up": lambda: self._vertical(-1),
            "down": lambda: self._vertical(1),
        }

    def press(self, key: Key) -> Outcome | None:
        """Apply a key. Return its outcome, or None if editing continues."""
        if key.name == "text":
            self._insert(key.text)
            return None
        action = self._actions.get(key.name)
        return action() if action is not None else None

    def set(self, text: str) -> None:
        """Replace the text, and put the cursor at its end."""
        self.text, self.cursor = text, len(text)

    def remember(self, text: str) -> None:
        """Add a text to the history, unless it is empty, very long, or the same as the last one."""
        if text.strip() and len(text) <= MAX_REMEMBERED and self.history[-1:] != [text]:
            self.history = [*self.history, text][-MAX_HISTORY:]
        self._place = len(self.history)

    def layout(self, prompt: str, width: int) -> Layout:
        """Return the rows that show the text after `prompt`, which may itself need several rows.

        Further lines are indented by the width of the prompt, unless it is long.
        """
        width = max(width, 4)
        rows = chop_cells(prompt, width)
        used = cell_len(rows[-1])
        indent = " " * (used if len(rows) == 1 and used <= width // 2 else 2)
        row = column = 0
        first, last = max(0, self.cursor - SHOWN_BEFORE), self.cursor + SHOWN_AFTER
        text = f"{self.text[first:last]} "
        for at, character in enumerate(text, first):
            shown = TAB if character == "\t" else prose(character) if character != "\n" else ""
            size = cell_len(shown)
            if used + size > width and character != "\n":
                rows.append(indent)
                used = len(indent)
            if at == self.cursor:
                row, column = len(rows) - 1, used
            if character == "\n":
                rows.append(indent)
                used = len(indent)
            elif at < first + len(text) - 1:
                rows[-1] += shown
                used += size
        return Layout(rows, row, column)

    def _insert(self, text: str) -> None:
        text = text[: MAX_LENGTH - len(self.text)]
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _enter(self) -> Outcome | None:
        if self.cursor == len(self.text) and self.text.endswith("\\"):
            self.set(f"{self.text[:-1]}\n")
            return None
        text = self._take().rstrip("\n")
        self.remember(text)
        return Submitted(text)

    def _take(self) -> str:
        text = self.text
        self.set("")
        return text

    def _tab(self) -> Outcome | None:
        before = self.text[: self.cursor]
        found = [text for text in self._complete(before) if text.startswith(before)]
        common = _common_start(found)
        if len(common) > len(before):
            self._insert(common[len(before) :])
            return None
        return CompletionChoices(found) if len(found) > 1 else None

    def _delete(self, step: int) -> None:
        first, last = sorted((self.cursor, max(0, self.cursor + step)))
        self.text = self.text[:first] + self.text[last:]
        self.cursor = first

    def _kill(self, first: int, last: int) -> None:
        self._killed = self.text[first:last]
        self.text = self.text[:first] + self.text[last:]
        self.cursor = first

    def _move(self, cursor: int) -> None:
        self.cursor = min(max(cursor, 0), len(self.text))

    def _line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end < 0 else end

    def _word_start(self) -> int:
        found = _WORD_BEFORE.search(self.text, max(0, self.cursor - 1000), self.cursor)
        return found.start() if found else self.cursor

    def _word_end(self) -> int:
        found = _WORD_AFTER.match(self.text, self.cursor)
        return found.end() if found else self.cursor

    def _vertical(self, step: int) -> None:
        """Move to another line of the text or, at its edge, to another entry of the history."""
        start = self.text.rfind("\n", 0, self.cursor) + 1
        column = self.cursor - start
        if step < 0 and start > 0:
            above = self.text.rfind("\n", 0, start - 1) + 1
            self.cursor = min(above + column, start - 1)
        elif step > 0 and self._line_end() < len(self.text):
            below = self._line_end() + 1
            end = self.text.find("\n", below)
            self.cursor = min(below + column, len(self.text) if end < 0 else end)
        else:
            self._recall(self._place + step)

    def _recall(self, place: int) -> None:
        if not 0 <= place <= len(self.history):
            return
        if self._place == len(self.history):
            self._unsent = self.text
        self._place = place
        self.set(self._unsent if place == len(self.history) else self.history[place])


def _common_start(texts: Sequence[str]) -> str:
    """Return the longest common prefix of `texts`."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:same]
