"""TOML text keeps its comments and its layout when a value is changed."""

import tomllib

import pytest

from tests.each import each
from tieline.clients.client import Setting, UnsafeChange
from tieline.clients.toml_text import edit_toml

SETTINGS = [
    Setting(("model",), "new"),
    Setting(("provider",), "t"),
    Setting(("p", "t", "url"), "http://x"),
    Setting(("p", "t", "auth", "args"), ["a"]),
]
TABLES = '[p.t]\nurl = "http://x"\n\n[p.t.auth]\nargs = ["a"]\n'

COMMENTED = """\
# mine
model = "gpt-5" # default
policy = "never"

[p.other]
name = "x"

[p.t]
url = "old"
more = 1

# about projects
[projects."/a"]
trust = "yes"
"""


def test_comments_and_layout_stay() -> None:
    assert (
        edit_toml(COMMENTED, SETTINGS)
        == f"""\
provider = "t"

# mine
model = "new"  # default
policy = "never"

[p.other]
name = "x"

# about projects
[projects."/a"]
trust = "yes"

{TABLES}"""
    )


@each(
    ("text", "changed"),
    [
        ("", f'model = "new"\nprovider = "t"\n\n{TABLES}'),
        ("\n[a]\nb = 1", f'model = "new"\nprovider = "t"\n\n[a]\nb = 1\n\n{TABLES}'),
        ("[a]\nb = 1\n", f'model = "new"\nprovider = "t"\n\n[a]\nb = 1\n\n{TABLES}'),
        ("provider = \"x\"\nmodel = 'y'", f'provider = "t"\nmodel = "new"\n\n{TABLES}'),
        ("provider = 1 # a 'b'\nmodel = 2\n", f'provider = "t"  # a \'b\'\nmodel = "new"\n\n{TABLES}'),
        (
            "a = 1\r\n",
            'model = "new"\nprovider = "t"\n\na = 1\n\n'.replace("\n", "\r\n") + TABLES.replace("\n", "\r\n"),
        ),
    ],
)
def test_values_and_tables_are_added(text: str, changed: str) -> None:
    assert edit_toml(text, SETTINGS) == changed
    assert edit_toml(changed, SETTINGS) == changed


def test_other_tables_below_a_replaced_one_stay() -> None:
    changed = edit_toml('[p.t]\nold = 1\n[p.t.headers]\nx = "y"\n', SETTINGS)
    assert tomllib.loads(changed)["p"]["t"] == {"url": "http://x", "headers": {"x": "y"}, "auth": {"args": ["a"]}}


@each(
    "text",
    [
        "model = ",
        "model = 1\nmodel = 2",
        'p = "text"',
        'p = { t = { url = "inline" } }',
        'model = """\nseveral\nlines\n"""',
        'text = """\n[p.t]\n"""\n',
        "[[p.t]]\nurl = 1",
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(UnsafeChange):
        edit_toml(text, SETTINGS)
