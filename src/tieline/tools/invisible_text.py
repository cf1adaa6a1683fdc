"""Code points that do not show, or that change how the text around them shows.

They are spelled out in everything a person is asked to judge: control and format characters (among them those that set
the writing direction), every blank but the space, private and unassigned code points, and the default-ignorable code
points of Unicode, which include the variation selectors. Line feeds and tabs stay as they are.
"""

import unicodedata

KEPT = frozenset("\n\t ")

_IGNORABLE = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xE0000, 0xE0FFF),  # tags and further variation selectors
)
"""Default-ignorable code points that are not in one of the categories below."""
_BLANK = frozenset((0x2800, 0x16FE4, 0x1D159))
"""Letters, marks and symbols without a visible form: the blank Braille pattern, a filler, a notehead."""
_CATEGORIES = ("C", "Z")
"""Control, format, surrogate, private, unassigned; and separators."""
_MOST_REMEMBERED = 1 << 16


def is_unseen(character: str) -> bool:
    """Whether a character must be spelled out to be seen."""
    if character in KEPT:
        return False
    code = ord(character)
    return (
        unicodedata.category(character).startswith(_CATEGORIES)
        or code in _BLANK
        or any(first <= code <= last for first, last in _IGNORABLE)
    )


def visible(text: str) -> str:
    r"""Return the text with each unseen character written as `\u{200b}`."""
    return text if text.isascii() and text.isprintable() else text.translate(_SPELLED)


class _Spelled(dict[int, int | str]):
    """How each code point is written, filled in as they occur."""

    def __missing__(self, code: int) -> int | str:
        shown = f"\\u{{{code:x}}}" if is_unseen(chr(code)) else code
        if len(self) < _MOST_REMEMBERED:
            self[code] = shown
        return shown


_SPELLED = _Spelled()
