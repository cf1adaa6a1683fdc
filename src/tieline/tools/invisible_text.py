"""Spells out characters that are invisible or change how the text around them is displayed.

This is done for everything that a person has to approve. The affected characters are control and format characters
(including those that set the writing direction), every blank character except the ordinary space, private-use
and unassigned code points, and Unicode's default-ignorable code points, which include the variation selectors. Line
feeds and tabs stay as they are.
"""

import unicodedata

UNCHANGED = frozenset("\n\t ")

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
"""Ranges of default-ignorable code points that are not all in one of `_CATEGORIES`."""
_BLANK = frozenset((0x2800, 0x16FE4, 0x1D159))
"""Letters, marks and symbols that are blank: the blank Braille pattern, the Khitan filler, the null notehead."""
_CATEGORIES = ("C", "Z")
"""Unicode categories: C (control, format, surrogate, private use, unassigned) and Z (separators)."""
_MAX_REMEMBERED = 1 << 16


def is_invisible(character: str) -> bool:
    """Return whether a character must be spelled out to be seen."""
    if character in UNCHANGED:
        return False
    code = ord(character)
    return (
        unicodedata.category(character).startswith(_CATEGORIES)
        or code in _BLANK
        or any(first <= code <= last for first, last in _IGNORABLE)
    )


def visible(text: str) -> str:
    r"""Return the text with each invisible character written as its code point, for example `\u{200b}`."""
    return text if text.isascii() and text.isprintable() else text.translate(_SPELLINGS)


class _SpellingTable(dict[int, int | str]):
    """A table for `str.translate` that spells out invisible characters. It is filled on demand, up to a limit."""

    def __missing__(self, code: int) -> int | str:
        shown = f"\\u{{{code:x}}}" if is_invisible(chr(code)) else code
        if len(self) < _MAX_REMEMBERED:
            self[code] = shown
        return shown


_SPELLINGS = _SpellingTable()
