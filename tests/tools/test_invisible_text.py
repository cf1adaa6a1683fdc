"""Characters that do not show are spelled out."""

import sys
import unicodedata

from tieline.tools.invisible_text import visible

IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]
"""Unicode's property Default_Ignorable_Code_Point, written down here from the standard."""
KEPT = "\n\t "
BLANK = [0x2800, 0x16FE4, 0x1D159]
DIRECTION = ("L", "R", "AL")


def must_be_spelled(code: int) -> bool:
    character = chr(code)
    if character in KEPT:
        return False
    is_control = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
    turns_direction = unicodedata.bidirectional(character) in (
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "LRI",
        "RLI",
        "FSI",
        "PDI",
    )
    return is_control or turns_direction or "VARIATION SELECTOR" in unicodedata.name(character, "")


def test_every_code_point_that_does_not_show_is_spelled_out() -> None:
    wanted = {code for code in range(sys.maxunicode + 1) if must_be_spelled(code)} | {*IGNORABLE, *BLANK}
    assert [hex(code) for code in sorted(wanted) if visible(chr(code)) != f"\\u{{{code:x}}}"] == []


def test_letters_digits_marks_and_signs_stay_as_they_are() -> None:
    hidden = {*IGNORABLE, *BLANK}
    seen = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code))[0] in "LMNPS" and code not in hidden
    ]
    assert "".join(seen) == visible("".join(seen))
    assert visible("a\tb\n c") == "a\tb\n c"


def test_a_command_cannot_hide_a_part_of_itself() -> None:
    assert visible("rm\u2800-rf\ufe0f \u034fx\r") == "rm\\u{2800}-rf\\u{fe0f} \\u{34f}x\\u{d}"
    assert visible("plain \x1b[2K") == "plain \\u{1b}[2K"
