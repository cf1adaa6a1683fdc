"""Makes text from models, agents and tools safe for a terminal: nothing in it can move the cursor or hide text."""

import re

from tieline.tools.invisible_text import visible

_ESCAPES = re.compile(
    r"[\x1b](?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles and links
    r"|[PX^_][^\x1b]*(?:\x1b\\|$)"  # device control strings
    r"|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TYPOGRAPHY = str.maketrans(
    {
        "\u00a0": " ",  # no-break spaces
        "\u202f": " ",
        "\u2007": " ",
        "\u2009": " ",
        "\u3000": "  ",  # ideographic space
        "\u00ad": "",  # soft hyphen
        "\u200c": "",  # joiners, as in emoji and Persian
        "\u200d": "",
        "\ufe0e": "",  # variants of emoji
        "\ufe0f": "",
    }
)
"""Replacements for invisible characters that are common in prose. All other invisible characters are spelled out."""


def prose(text: str) -> str:
    """Return text that a model wrote, with control characters and unusual invisible characters spelled out."""
    return text if text.isascii() and text.isprintable() else visible(_line_feeds(text).translate(_TYPOGRAPHY))


def output(text: str) -> str:
    """Return the output of a program without colours, cursor movements and overwritten lines."""
    bare = _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\r\n", "\n"))
    if "\r" in bare:
        bare = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in bare.split("\n"))
    return visible(bare)


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters."""
    line = " ".join(prose(text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
