"""Typing: keys in any pieces, editing, history, completion, pasted text and what the screen shows of it."""

import pytest

from tests.each import each
from tieline.cli.chat.keys import Key, KeyDecoder
from tieline.cli.chat.line_editor import CompletionChoices, EndOfInput, Interrupted, LineEditor, Submitted


def typed(*pieces: bytes, editor: LineEditor | None = None) -> tuple[LineEditor, list[object]]:
    """An editor after these reads, and what came of them."""
    editor = editor or LineEditor()
    decoder = KeyDecoder()
    outcomes = [editor.press(key) for piece in pieces for key in decoder.feed(piece)]
    return editor, [outcome for outcome in outcomes if outcome is not None]


@each(
    ("data", "text"),
    [
        (b"hello\x1b[D\x1b[D\x7fX", "heXlo"),
        (b"one two\x17X", "one X"),
        (b"one two\x01\x0bX\x19", "Xone two"),
        (b"one two\x15X", "X"),
        (b"one two\x1bb\x1bbX", "Xone two"),
        (b"ab\x01\x1b[3~", "b"),
        (b"ab\x01\x04", "b"),
        (b"\x1b[200~a\r\nb\x1b[31m\x1b[201~c", "a\nb\x1b[31mc"),
        (b"a\x1b\rb\nc", "a\nb\nc"),
        (b"a\\\rb", "a\nb"),
        ("ü日\x1b[D\x7f".encode(), "日"),
        (b"a\x1b[99~\x00b", "ab"),
    ],
)
def test_keys_edit_the_text(data: bytes, text: str) -> None:
    assert typed(data)[0].text == text


@each(
    ("data", "text"),
    [
        (b"hello\x1b[D\x1b[D\x7fX", "heXlo"),
        ("ü日\x1b[D\x7f".encode(), "日"),
        (b"ab\x1b[1;5DX", "Xab"),
        (b"\x1b[200~a\r\nb\x1b[201~c", "a\nbc"),
        (b"a\x1bb", "ab"),
    ],
)
def test_keys_may_arrive_byte_by_byte(data: bytes, text: str) -> None:
    assert typed(*(data[at : at + 1] for at in range(len(data))))[0].text == text


def test_a_paste_is_one_text_even_if_it_is_cut_anywhere() -> None:
    data = b"x\x1b[200~one\rtwo \xc3\xa4\x1b[201~y"
    for cut in range(3, len(data)):
        assert typed(data[:cut], data[cut:])[0].text == "xone\ntwo äy", cut


def test_enter_sends_and_the_text_is_remembered() -> None:
    editor, outcomes = typed(b"first\rsecond\r")
    assert outcomes == [Submitted("first"), Submitted("second")]
    editor, _ = typed(b"unsent\x1b[A\x1b[A", editor=editor)
    assert editor.text == "first"
    editor, _ = typed(b"\x1b[B\x1b[B", editor=editor)
    assert editor.text == "unsent"


def test_the_arrow_keys_move_between_the_lines_of_a_text_first() -> None:
    editor, _ = typed(b"old\r\x1b[200~ab\ncd\x1b[201~\x1b[AX")
    assert editor.text == "abX\ncd"


@pytest.mark.parametrize(
    ("data", "outcome"),
    [(b"\x03", Interrupted("")), (b"ab\x03", Interrupted("ab")), (b"\x04", EndOfInput()), (b"a\x7f\x04", EndOfInput())],
)
def test_ctrl_c_and_ctrl_d(data: bytes, outcome: object) -> None:
    editor, outcomes = typed(data)
    assert outcomes == [outcome]
    assert editor.text == ""


def complete(before: str) -> list[str]:
    return [text for text in ("/model ", "/mode ", "/quit") if text.startswith(before)]


def test_tab_completes_as_far_as_it_is_clear_and_then_lists_what_is_possible() -> None:
    editor, outcomes = typed(b"/m\t", editor=LineEditor(complete=complete))
    assert (editor.text, outcomes) == ("/mode", [])
    editor, outcomes = typed(b"\t", editor=editor)
    assert outcomes == [CompletionChoices(["/model ", "/mode "])]
    editor, _ = typed(b"l\t", editor=editor)
    assert editor.text == "/model "


def test_the_screen_shows_every_line_after_the_prompt_and_wraps_long_ones() -> None:
    editor, _ = typed(b"\x1b[200~abcdef\nx\x1b[201~")
    layout = editor.layout("> ", 6)
    assert layout.rows == ["> abcd", "  ef", "  x"]
    assert (layout.row, layout.column) == (2, 3)


def test_wide_characters_take_two_columns_and_invisible_ones_are_spelled_out() -> None:
    editor, _ = typed("\x1b[200~日本\u202ex\x1b[201~".encode())
    layout = editor.layout("> ", 40)
    assert layout.rows == ["> 日本\\u{202e}x"]
    assert layout.column == 2 + 4 + 8 + 1


def test_a_prompt_that_is_wider_than_the_screen_takes_several_rows() -> None:
    editor, _ = typed(b"yes")
    layout = editor.layout("y allow, n deny > ", 12)
    assert layout.rows == ["y allow, n d", "eny > yes"]
    assert (layout.row, layout.column) == (1, 9)


def test_the_cursor_goes_to_the_next_row_when_a_row_is_full() -> None:
    editor, _ = typed(b"abcd")
    layout = editor.layout("> ", 6)
    assert (layout.rows, layout.row, layout.column) == (["> abcd", "  "], 1, 2)


def test_a_huge_paste_is_shown_in_part_and_kept_as_a_whole() -> None:
    editor = LineEditor()
    editor.press(Key("text", "x" * 500_000))
    assert len(editor.text) == 500_000
    assert len(editor.layout("> ", 80).rows) < 100
