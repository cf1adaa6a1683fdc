"""Simple YAML text keeps its comments and its layout when a value is changed."""

from typing import Any

import pytest

from tests.each import each
from tieline.clients.client import Setting, UnsafeChange
from tieline.clients.yaml_text import edit_yaml, scalar


@each(
    ("text", "changed"),
    [
        ("", "model: new\n"),
        ("# mine\nother: 1", "# mine\nother: 1\nmodel: new\n"),
        ("model: old  # why\nother: 1\n", "model: new  # why\nother: 1\n"),
        ("model: 'a: b'\n", "model: new\n"),
        ("model:\nother: 1\n", "model: new\nother: 1\n"),
        ("---\nmodel: old\n", "---\nmodel: new\n"),
        ("other:\n  model: keep\n", "other:\n  model: keep\nmodel: new\n"),
        ("model: old\r\nother: 1\r\n", "model: new\r\nother: 1\r\n"),
    ],
)
def test_a_value_is_replaced_or_added(text: str, changed: str) -> None:
    assert edit_yaml(text, [Setting(("model",), "new")]) == changed


ITEM = Setting(("models",), {"name": "t", "url": "http://x", "roles": ["a", "b"], "limit": {"n": 1}}, match="name")
LINES = "- name: t\n    url: http://x\n    roles: [a, b]\n    limit:\n      n: 1\n"


@each(
    ("text", "changed"),
    [
        ("", f"models:\n  {LINES}"),
        ("models: []\nrules: [x]\n", f"models:\n  {LINES}rules: [x]\n"),
        ("models:\n  - name: a\n\n# end\nrules: 1\n", f"models:\n  - name: a\n  {LINES}\n# end\nrules: 1\n"),
        ("models:\n- name: a\n", "models:\n- name: a\n" + f"  {LINES}".replace("\n  ", "\n").removeprefix("  ")),
        (
            "models:\n  - name: t\n    old: 1\n    # note\n  - name: b # c\n",
            f"models:\n  {LINES}    # note\n  - name: b # c\n",
        ),
        ("models:\n  - old: 1\n    name: 't'\nz: 1\n", f"models:\n  {LINES}z: 1\n"),
        ("models:\n  - name: t\n  -\n    name: b\n", f"models:\n  {LINES}  -\n    name: b\n"),
        ("models:\n  -\n    name: t\n  - name: b\n", f"models:\n  {LINES}  - name: b\n"),
    ],
)
def test_an_item_is_replaced_or_added(text: str, changed: str) -> None:
    assert edit_yaml(text, [ITEM]) == changed


def test_an_item_of_the_document_itself() -> None:
    setting = Setting((), {"id": "t", "v": True}, match="id")
    assert edit_yaml("# mine\n- id: a\n  v: x\n", [setting]) == "# mine\n- id: a\n  v: x\n- id: t\n  v: true\n"
    assert edit_yaml("- id: t\n  v: x\n- id: a\n", [setting]) == "- id: t\n  v: true\n- id: a\n"


@each(
    "text",
    [
        "model: |\n  several\n  lines\n",
        "model: &anchor x\n",
        "model: {a: 1}\n",
        "model: 'several\n  lines'\n",
        "model: a\nmodel: b\n",
        "{model: a}\n",
        "model: a\n---\nmodel: b\n",
        "a:\n\tb: 1\n",
        "models: {a: 1}\n",
        "models:\n  a: 1\n",
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(UnsafeChange):
        edit_yaml(text, [Setting(("model",), "new"), ITEM])


@each(
    ("value", "written"),
    [
        ("demo/scripted", "demo/scripted"),
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1"),
        ("1.0.0", "1.0.0"),
        ("1.0", '"1.0"'),
        ("yes", '"yes"'),
        ("", '""'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("*x", '"*x"'),
        (True, "true"),
        (7, "7"),
    ],
)
def test_scalars(value: Any, written: str) -> None:
    assert scalar(value) == written
