"""Tests of what is told about losses."""

from tieline.core.legs.losses import HEADER, MAX_ITEM, MAX_ITEMS, MAX_KINDS, LossLog, header, losses_in
from tieline.model.content import STATE, Foreign, Text, Thinking, ToolCall


def test_the_header_names_each_loss_once_in_printable_ascii() -> None:
    assert header(()) == ()
    assert header(["top_k", "top_k", "tool a,b\r\nx", "é"]) == ((HEADER, "top_k, tool a b x"),)


def test_the_header_is_bounded() -> None:
    ((_, value),) = header([f"{number}" + "x" * 1000 for number in range(100)])
    assert len(value) <= (MAX_ITEMS + 1) * (MAX_ITEM + 2)
    assert value.endswith(f", {100 - MAX_ITEMS} more")


def test_a_kind_of_loss_is_new_once_and_kinds_are_bounded() -> None:
    losses = LossLog()
    assert losses.is_new("chat", "up", "top_k")
    assert not losses.is_new("chat", "up", "top_k")
    assert losses.is_new("chat", "other", "top_k")
    for number in range(MAX_KINDS + 10):
        losses.is_new("chat", "up", str(number))
    assert len(losses._known) == MAX_KINDS


def test_parts_and_details_of_another_protocol_are_losses_of_the_answer() -> None:
    search = Foreign(protocol="a", kind="web_search_tool_result", json="{}")
    cited = Text(text="x", meta={"a": {"citations": "[]"}, "cache_control": {}})
    assert [note.what for note in losses_in(search, "b")] == ["web_search_tool_result"]
    assert [note.what for note in losses_in(cited, "b")] == ["citations"]
    assert losses_in(search, "a") == losses_in(cited, "a") == []
    assert losses_in(ToolCall(id="c", name="n", meta={STATE: {"x": "1"}}), "b") == []


def test_details_that_matter_only_to_the_upstream_are_no_losses() -> None:
    call = ToolCall(id="c", name="n", meta={"a": {"caller": '{"type":"direct"}'}})
    thinking = Thinking(text="one\n\ntwo", meta={"a": {"parts": (3, 3)}})
    assert losses_in(call, "b") == losses_in(thinking, "b") == []
