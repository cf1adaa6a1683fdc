"""Decodes the bytes that a terminal sends into keys and pasted text."""

import codecs
import re
from typing import NamedTuple

PASTE_LIMIT = 1 << 20
"""Maximum number of characters in pasted text. The rest is dropped."""

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[@-~]|[^\[O])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?")
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"

_CONTROLS = {
    "\r": "enter",
    "\n": "newline",
    "\t": "tab",
    "\x01": "home",
    "\x02": "left",
    "\x03": "interrupt",
    "\x04": "end-of-input",
    "\x05": "end",
    "\x06": "right",
    "\x08": "backspace",
    "\x7f": "backspace",
    "\x0b": "kill-to-end",
    "\x0c": "clear",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "kill-to-start",
    "\x17": "kill-word",
    "\x19": "yank",
    "\x1a": "suspend",
}
_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[3~": "delete",
    "\x1b[1;5C": "word-right",
    "\x1b[1;5D": "word-left",
    "\x1b[1;3C": "word-right",
    "\x1b[1;3D": "word-left",
    "\x1bf": "word-right",
    "\x1bb": "word-left",
    "\x1b\x7f": "kill-word",
    "\x1b\r": "newline",
    "\x1b\n": "newline",
}


class Key(NamedTuple):
    """A key by its name, or text that was typed or pasted (`name` is then "text")."""

    name: str
    text: str = ""


INTERRUPT = Key("interrupt")
QUIT = Key("quit")
"""The terminal was closed, or this program was asked to end."""
RESIZED = Key("resized")
"""The size of the terminal has changed, so the line must be drawn again."""


class KeyDecoder:
    """Decodes reads of any size. An escape sequence or a character may be split between two reads."""

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._pasted: list[str] | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that `data` completes."""
        text = self._utf8.decode(data)
        if self._rest == "\x1b" and text[:1] not in ("[", "O", ""):
            self._rest = ""  # the Escape key, which has no function here
        text, self._rest = self._rest + text, ""
        keys: list[Key] = []
        while text:
            text = self._paste(text, keys) if self._pasted is not None else self._key(text, keys)
        return keys

    def _key(self, text: str, keys: list[Key]) -> str:
        """Decode the first key of `text`, and return the rest."""
        if text[0] == "\x1b":
            return self._escape(text, keys)
        if text[0] in _CONTROLS:
            keys.append(Key(_CONTROLS[text[0]]))
            return text[1:]
        end = next((at for at, character in enumerate(text) if character < " " or character == "\x7f"), len(text))
        if end:
            keys.append(Key("text", text[:end]))
        return text[max(end, 1) :]

    def _escape(self, text: str, keys: list[Key]) -> str:
        found = _SEQUENCE.match(text)
        if found is None:
            if _UNFINISHED.fullmatch(text):
                self._rest = text
                return ""
            return text[1:]
        if found[0] == _PASTE_BEGINS:
            self._pasted, self._size = [], 0
        elif found[0] in _SEQUENCES:
            keys.append(Key(_SEQUENCES[found[0]]))
        return text[found.end() :]

    def _paste(self, text: str, keys: list[Key]) -> str:
        assert self._pasted is not None  # noqa: S101 - checked by the caller
        body, end, rest = text.partition(_PASTE_ENDS)
        if not end:
            # The end mark may be split: keep what could be its beginning.
            at = body.rfind("\x1b", -len(_PASTE_ENDS))
            if at >= 0 and _PASTE_ENDS.startswith(body[at:]):
                body, self._rest = body[:at], body[at:]
        self._pasted.append(body[: PASTE_LIMIT - self._size])
        self._size += len(self._pasted[-1])
        if end:
            pasted = "".join(self._pasted).replace("\r\n", "\n").replace("\r", "\n")
            self._pasted = None
            if pasted:
                keys.append(Key("text", pasted))
        return rest
