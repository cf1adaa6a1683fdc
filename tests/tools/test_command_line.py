"""Command lines as a shell reads them."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each import each
from tieline.tools.command_line import loose_words, simple_command

NOT_SIMPLE = [
    "",
    "   ",
    "ls; rm -rf /",
    "ls;rm",
    "ls && rm x",
    "ls || rm x",
    "ls | sh",
    "ls & rm x",
    "ls &",
    "ls\nrm x",
    "ls\r\nrm x",
    "ls $(rm x)",
    "ls `rm x`",
    'ls "$(rm x)"',
    'ls "`rm x`"',
    "ls $HOME",
    'ls "$HOME"',
    "ls ${x:-$(rm x)}",
    "ls $'\\n'",
    "ls > /etc/passwd",
    "ls >> x",
    "ls < x",
    "ls 2>x",
    "ls <(rm x)",
    "ls <<EOF",
    "(ls)",
    "{ ls; }",
    "LD_PRELOAD=x ls",
    "A=1 ls",
    "A+=1 ls",
    "A[0]=1 ls",
    "A=1",
    "! ls",
    "time ls",
    "if ls",
    "ls # harmless",
    "ls #'\nrm -rf x #'",
    "ls 'open",
    'ls "open',
    "ls \\",
    "ls \\\nrm",
    'ls "a\\\nb"',
    "f() ls",
    "ls\x00",
    "ls\u00a0rm",
    "ls\x0brm",
]
SIMPLE = [
    ("ls", ["ls"]),
    ("  ls\t-la  src ", ["ls", "-la", "src"]),
    ("grep 'a;b|c && $(d) `e`' file", ["grep", "a;b|c && $(d) `e`", "file"]),
    ('git commit -m "one; two > three & four"', ["git", "commit", "-m", "one; two > three & four"]),
    ('echo "a\\"b\\\\c\\d"', ["echo", 'a"b\\c\\d']),
    ("git commit -m 'one\ntwo'", ["git", "commit", "-m", "one\ntwo"]),
    ("l's' \"-\"a", ["ls", "-a"]),
    ("touch a\\ b \\;", ["touch", "a b", ";"]),
    ("ls '' \"\"", ["ls", "", ""]),
    ("ls *.py src/[ab]? ~", ["ls", "*.py", "src/[ab]?", "~"]),
    ("ls --color=auto A=1", ["ls", "--color=auto", "A=1"]),
    ("größe ü", ["größe", "ü"]),
]


@each("line", NOT_SIMPLE)
def test_whatever_a_shell_may_take_for_more_than_one_command_is_not_simple(line: str) -> None:
    assert simple_command(line) is None


@each(("line", "words"), SIMPLE)
def test_a_simple_command_has_the_words_a_shell_would_give_it(line: str, words: list[str]) -> None:
    assert simple_command(line) == words


@settings(max_examples=4 * settings().max_examples)
@given(st.text("ab -'\"\\$;&|<>()#\n\t=*!`x", max_size=14))
def test_a_real_shell_agrees(line: str) -> None:
    """Where we say these are the words, a shell that is given the line says the same."""
    words = simple_command(line)
    if words is None:
        return
    argv = ["/bin/sh", "-f", "-c", f"printf '%s\\0' {line}"]
    printed = subprocess.run(argv, capture_output=True, check=True, timeout=10, cwd="/")  # noqa: S603 (only printf runs)
    assert printed.stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls; rm -rf x", ["ls", "rm", "-rf", "x"]),
        ("sh -c 'rm -rf x'", ["sh", "-c", "rm", "-rf", "x"]),
        ('echo $(r""m x)`rm y`', ["echo", "rm", "x", "rm", "y"]),
        ("A=1 r\\m x", ["A", "1", "rm", "x"]),
        ("r\\\nm", ["rm"]),
        ("{rm,-rf,x}", ["rm", "-rf", "x"]),
        ("'unfinished", ["unfinished"]),
    ],
)
def test_loose_words_are_all_that_could_be_words(line: str, words: list[str]) -> None:
    assert loose_words(line) == words
