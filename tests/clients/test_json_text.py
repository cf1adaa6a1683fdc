"""JSON text keeps its comments and its layout when a value is changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tieline.clients.client import Setting, UnsafeChange
from tieline.clients.json_text import edit_json, parse_json

COMMENTED = """\
// first
{
  "theme": "dark", // nice
  /* about
     providers */
  "provider": {
    "other": {"a": [1, 2,]}
  },
  "model": "old"   // the model
}
"""


def test_comments_and_layout_stay() -> None:
    settings = [
        Setting(("provider", "tieline"), {"url": "http://x"}),
        Setting(("model",), "new"),
        Setting(("b",), True),
    ]
    assert (
        edit_json(COMMENTED, settings)
        == """\
// first
{
  "theme": "dark", // nice
  /* about
     providers */
  "provider": {
    "other": {"a": [1, 2,]},
    "tieline": {
      "url": "http://x"
    }
  },
  "model": "new",   // the model
  "b": true
}
"""
    )


@each(
    ("text", "changed"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("\n", '\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// only a comment", '// only a comment\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("{ // empty\n}\n", '{ // empty\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{"x": 1,}', '{"x": 1, "a": {"b": 1},}'),
        ('{"a": {"b": 2}, "x": 1}', '{"a": {"b": 1}, "x": 1}'),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ('{\n\t"x": 1\n}', '{\n\t"x": 1,\n\t"a": {\n\t  "b": 1\n\t}\n}'),
        ('{\n  "x": 1, // one\n}', '{\n  "x": 1, // one\n  "a": {\n    "b": 1\n  },\n}'),
        ('{\n  "x": 1 /* one */\n}', '{\n  "x": 1, /* one */\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\r\n  "x": 1\r\n}\r\n', '{\r\n  "x": 1,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('{"x": "// no comment, }"}', '{"x": "// no comment, }", "a": {"b": 1}}'),
    ],
)
def test_a_value_is_added(text: str, changed: str) -> None:
    assert edit_json(text, [Setting(("a", "b"), 1)]) == changed


@each(
    ("text", "items"),
    [
        ("{}", [{"id": "t", "v": 2}]),
        ('{"list": []}', [{"id": "t", "v": 2}]),
        ('{"list": [{"id": "x"}]}', [{"id": "x"}, {"id": "t", "v": 2}]),
        ('{"list": [\n  {"id": "t", "v": 1}, // mine\n  7\n]}', [{"id": "t", "v": 2}, 7]),
    ],
)
def test_an_item_of_a_list_is_replaced_or_added(text: str, items: list[object]) -> None:
    assert parse_json(edit_json(text, [Setting(("list",), {"id": "t", "v": 2}, match="id")])) == {"list": items}


def test_a_default_does_not_replace_a_value() -> None:
    settings = [Setting(("a",), 1, is_default=True), Setting(("b",), 2, is_default=True)]
    assert edit_json('{"a": null}', settings) == '{"a": null, "b": 2}'


@each(
    ("text", "reason"),
    [
        ("{", "line 1"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3"),
        ("{'a': 1}", "line 1"),
        ('{"a": 1} {}', "line 1"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaNa}', "line 1"),
        ("[]", "not an object"),
        ('{"a": "text"}', "not an object"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnsafeChange, match=reason):
        edit_json(text, [Setting(("a", "b"), 1)])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=4), VALUES, st.sampled_from([None, 1, "\t"]), st.booleans()
)
def test_nothing_else_changes(old: dict[str, object], value: object, indent: int | str | None, escaped: bool) -> None:
    text = json.dumps(old, indent=indent, ensure_ascii=escaped)
    changed = edit_json(text, [Setting(("tieline",), value)])
    assert json.loads(changed) == {**old, "tieline": value}
