"""Nobody writes lines of their own into the log, or talks to the terminal."""

import io
import logging

import pytest

from tieline.app.logs import LONGEST, OneLineFormatter, one_line

EVIL = "claude\n2026-01-01 ERROR forged\x1b]0;title\x07\r\u202e"


def logged(message: str, *arguments: object, error: BaseException | None = None) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLineFormatter("%(levelname)s %(message)s"))
    info = None if error is None else (type(error), error, error.__traceback__)
    handler.handle(logging.LogRecord("tieline", logging.WARNING, "", 0, message, arguments, info))
    return stream.getvalue()


def test_an_event_is_one_line_without_control_characters() -> None:
    text = logged("%s failed", EVIL)
    assert text.count("\n") == 1
    assert text.startswith(r"WARNING claude\n2026-01-01 ERROR forged\u{1b}]0;title\u{7}\u{d}\u{202e} failed")
    assert text.rstrip("\n").isprintable()


def test_the_lines_of_a_traceback_cannot_be_taken_for_events() -> None:
    with pytest.raises(ValueError, match="forged") as caught:
        int(EVIL)
    text = logged("it broke", error=caught.value)
    first, *more = text.splitlines()
    assert first == "WARNING it broke"
    assert more
    assert all(line.startswith("  ") and line.isprintable() for line in more)
    assert any("forged" in line for line in more)


def test_an_event_has_a_limit() -> None:
    assert len(logged("%s", "x" * (10 * LONGEST))) < LONGEST + 100


def test_words_in_any_language_stay_as_they_are() -> None:
    assert one_line("Größe 你好 🙂") == "Größe 你好 🙂"
