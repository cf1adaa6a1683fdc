"""Patterns of paths."""

import time

import pytest

from tests.each import each
from tieline.tools.globs import Glob, escaped, is_exact

TABLE = [
    ("*.py", "a.py", True),
    ("*.py", "deep/down/a.py", True),
    ("*.py", "a.pyc", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/deep/a.py", False),
    ("src/*.py", "other/src/a.py", False),
    ("src/**/*.py", "src/a.py", True),
    ("src/**/*.py", "src/deep/down/a.py", True),
    ("**/test_*", "a/b/test_x", True),
    ("a/**/b/**/c", "a/b/x/b/c", True),
    ("a/**/b/**/c", "a/x/c", False),
    ("**", "anything/at/all", True),
    ("**", ".", True),
    ("*", ".", False),
    ("docs/", "docs/a/b.md", True),
    ("docs/", "deep/docs/a.md", True),
    ("docs/", "docs", True),
    ("/docs/", "deep/docs/a.md", False),
    ("/docs", "docs", True),
    ("/docs", "docs/a", False),
    ("./docs/*", "docs/a", True),
    ("secrets/**", "secrets", True),
    ("secrets/**", "secrets/a/b", True),
    ("secrets/**", "secretsx/a", False),
    ("{a,b/c}.txt", "deep/a.txt", True),
    ("{a,b/c}.txt", "b/c.txt", True),
    ("{a,b/c}.txt", "deep/b/c.txt", False),
    ("{a,{b,c}d}", "cd", True),
    ("a{,b}", "ab", True),
    ("a{,b}", "a", True),
    ("a,b", "a,b", True),
    ("a}", "a}", True),
    ("?.c", "x.c", True),
    ("?.c", "xy.c", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[^a-c]x", "zx", True),
    ("[]]", "]", True),
    ("[!]]", "]", False),
    ("[a", "[a", True),
    ("[&&]", "&", True),
    (r"\*", "*", True),
    (r"\*", "x", False),
    (r"[\]]", "]", True),
    ("a*b*c", "a-b-b-c", True),
    ("a*b*c", "a-c-b", False),
    ("*a", "banana", True),
    ("a**b", "axxb", True),
    ("a**b", "a/b", False),
    ("***", "a/b", True),
    ("new\nline", "new\nline", True),
    ("*", "new\nline", True),
    (".*", "x", False),
]


@each(("pattern", "path", "fits"), TABLE)
def test_which_paths_a_pattern_is_about(pattern: str, path: str, fits: bool) -> None:
    assert Glob.of(pattern).matches(path) is fits


@pytest.mark.parametrize("pattern", ["", "{a", "{a,{b}", "[z-a]", "x" * 1001, "{a,b}" * 7, "{" * 9 + "a" + "}" * 9])
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Glob.of(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 400 + "b", "a" * 4000),
        ("**/a/" * 190 + "b", "a/" * 2000),
        ("**/*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/" * 100),
        ("[a-z]*" * 150 + "!", "z" * 4000),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """Ours: patterns come from models, and one that goes back and forth would take longer than the sun will shine."""
    glob = Glob.of(pattern)
    before = time.process_time()
    assert not glob.matches(path)
    assert time.process_time() - before < 2


@pytest.mark.parametrize("path", ["a", "deep/a b.txt", "we[i]rd*{x,y}?.py", "back\\slash", ".", "!a", "new\nline"])
def test_the_pattern_for_one_path_is_about_that_path_alone(path: str) -> None:
    pattern = escaped(path)
    assert is_exact(pattern)
    assert Glob.of(pattern).matches(path)
    assert not Glob.of(pattern).matches(f"{path}x")
    assert not Glob.of(pattern).matches(f"deep/{path}/more")


@pytest.mark.parametrize("pattern", ["a", "/a/", "/a*", "/{a,b}", "**", "/a/[b]"])
def test_a_pattern_about_several_paths_is_not_exact(pattern: str) -> None:
    assert not is_exact(pattern)
