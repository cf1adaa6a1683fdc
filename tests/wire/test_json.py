"""wire.json: exact about a client's mistakes, patient with an upstream's."""

import msgspec
import pytest

from tests.each import each
from tieline.model.errors import BadRequest
from tieline.wire.shared.json import Malformed, is_object, object_text, parse, parse_object, read


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    input: msgspec.Raw = msgspec.Raw(b"")


class _Body(msgspec.Struct):
    messages: list[_Part]
    limits: dict[str, int] = {}
    first: _Part | None = None


BODY = msgspec.json.Decoder(_Body)
PART = msgspec.json.Decoder(_Part)


@pytest.mark.parametrize(
    ("body", "at", "param"),
    [
        (b'{"messages":[{"type":"a"},{"type":1}]}', "", "messages[1].type"),
        (b'{"messages":[{"type":1}]}', "tools[3]", "tools[3].messages[0].type"),
        (b'{"messages":3}', "", "messages"),
        (b"{}", "tools[3]", "tools[3]"),
        (b"[]", "", None),
        (b'{"messages":[', "", None),
        (b'{"messages":[]} x', "messages", "messages"),
        (b'{"messages":[{"type":"\xff"}]}', "", None),
        (b"", "", None),
    ],
)
def test_a_mistake_of_a_client_has_the_path_of_its_field(body: bytes, at: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(BODY, body, at)
    assert caught.value.param == param
    assert caught.value.status == 400


def test_a_path_below_a_list_needs_no_dot() -> None:
    with pytest.raises(BadRequest) as caught:
        parse(msgspec.json.Decoder(list[_Part]), b'[{"type":1}]', "messages[0].content")
    assert caught.value.param == "messages[0].content[0].type"
    assert str(caught.value).startswith("`messages[0].content[0].type`: ")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":', "not valid JSON"),
        (b'{"a":"\xff"}', "not valid UTF-8: invalid start byte at byte 6"),
        (b'{"a\xc3":1}', "not valid UTF-8"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"a":' + b"[" * 200_000, "nested too deeply"),
        (b"", "not valid JSON"),
    ],
)
def test_a_body_that_is_no_object_of_json_is_told_in_words(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_object(body)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (rb"\ud83d", rb"\ufffd"),
        (rb"a\uDE00b", rb"a\ufffdb"),
        (rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00"),
        (rb"\ud83d\ude00\ud83d", rb"\ud83d\ude00\ufffd"),
        (rb"\\ud83d \\\ud83d \n", rb"\\ud83d \\\ufffd \n"),
    ],
)
def test_half_a_character_from_a_client_is_replaced_and_the_rest_is_kept(sent: bytes, kept: bytes) -> None:
    """Seen: editors cut long tool results inside an emoji, and then every later request holds the half."""
    assert bytes(parse_object(b'{"a": "%s"}' % sent)["a"]) == b'"%s"' % kept


def test_the_fields_of_a_body_stay_unread() -> None:
    assert bytes(parse_object(b'{"a": [1,  2]}')["a"]) == b"[1,  2]"


def test_064_half_a_character_from_an_upstream_is_let_through() -> None:
    assert read(PART, b'{"type":"a","text":"\\ud83d"}').text == "\ud83d"
    assert read(PART, b'{"type":"a","text":"x\\ude00y"}').text == "x\ude00y"


def test_064_half_a_character_beside_or_inside_raw_json_is_let_through() -> None:
    """Ours: msgspec.convert makes Raw of nothing, the patient path has to."""
    part = read(PART, b'{"type":"a","text":"\\ud83d","input":{"n":1}}')
    assert (part.text, msgspec.json.decode(part.input)) == ("\ud83d", {"n": 1})
    assert msgspec.json.decode(read(PART, b'{"type":"a","input":{"n":"\\ud83d"}}').input) == {"n": "\ufffd"}
    body = read(
        BODY,
        b'{"messages":[{"type":"a","text":"\\ud83d","input":[1]}],"first":{"type":"b","input":2},"limits":{"a":1}}',
    )
    assert body.first is not None
    assert (bytes(body.messages[0].input), bytes(body.first.input), body.limits) == (b"[1]", b"2", {"a": 1})


def test_half_a_character_outside_of_fragments_is_replaced() -> None:
    """Ours: ids and names are written to clients as they are, and half a character cannot be written."""
    part = read(PART, b'{"type":"a\\ud83d","text":"\\ud83d"}')
    assert (part.type, part.text) == ("a\ufffd", "\ud83d")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"type":1}', b'{"type":"\xff"}', b'{"type":"a\nb"}', b'{"type":"\\ud83d', b"<html>", b"[" * 100_000],
)
def test_what_an_upstream_sent_malformed_raises_one_exception(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(PART, data)


@each(
    ("text", "expected"),
    [
        ('{"a":1}', '{"a":1}'),
        (' {"b": 1, "a": 1e3 } ', ' {"b": 1, "a": 1e3 } '),
        ("{}", "{}"),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        ("[1, 2]", '{"value":[1, 2]}'),
        ("3", '{"value":3}'),
        ("true", '{"value":true}'),
        ('"x"', '{"value":"x"}'),
        ('"{\\"a\\":1}"', '{"a":1}'),
        ('{"a":', '{"_invalid_json":"{\\"a\\":"}'),
        ('{"a":1}{"b":2}', '{"_invalid_json":"{\\"a\\":1}{\\"b\\":2}"}'),
        ("{'a':1}", '{"_invalid_json":"{\'a\':1}"}'),
        ("\ud83d", '{"_invalid_json":"\ufffd"}'),
    ],
)
def test_022_023_arguments_are_always_an_object(text: str, expected: str) -> None:
    assert object_text(text) == expected
    assert is_object(expected)


def test_023_arguments_nested_too_deeply_are_wrapped_and_not_fatal() -> None:
    assert is_object(object_text("[" * 100_000))
