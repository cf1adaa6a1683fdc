"""The rules of the code base that no linter checks: size, first sentences, names, suppressions, locks."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.each import each

ROOT = Path(__file__).parent.parent
MAX_LINES = 600
VAGUE_NAMES = {"utils", "helpers", "common", "base", "manager", "handler", "misc"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
PROTOCOLS_AND_BACKENDS = re.compile(r"(?<![a-z])(anthropic|openai|cursor|acp)(?![a-z])", re.IGNORECASE)
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)", re.IGNORECASE)
EXPLAINED_SUPPRESSION = re.compile(
    r"#\s*(noqa: ?[A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)*|type: ?ignore\[[a-z-]+(, ?[a-z-]+)*\])\W+\w+"
)
LOCK_LINES = (
    re.compile(r"[a-z0-9-]+==[0-9a-z.+!]+( ; (?P<marker>[a-zA-Z0-9_.'<>=!() -]+))? \\"),
    re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?"),
)


def python_files(*folders: str) -> list[Path]:
    """Files we wrote: folders whose name starts with a dot hold what others wrote, `_pb` what a generator wrote."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    ours = (path.relative_to(ROOT) for path in found)
    return sorted(path for path in ours if not any(name.startswith(".") or name == "_pb" for name in path.parts))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Real comments with their line number, not what looks like one inside a string."""
    with tokenize.open(ROOT / path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def matching_lines(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """Each line of the file that the pattern occurs in, as `path:number: line`."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [f"{path}:{number}: {line}" for number, line in enumerate(lines, 1) if pattern.search(line)]


@each("path", python_files("src", "tests", "bench"), ids=str)
def test_a_module_stays_below_600_lines(path: Path) -> None:
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) < MAX_LINES


@each("path", python_files("src"), ids=str)
def test_a_module_opens_with_a_sentence_about_its_job(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""
    first_paragraph = " ".join(docstring.split("\n\n")[0].split())
    assert re.match(r"\w.*\.(\s|$)", first_paragraph), f"{path}: no first sentence in {first_paragraph!r}"


@each("path", python_files("src"), ids=str)
def test_nothing_is_left_for_later(path: Path) -> None:
    assert matching_lines(path, UNFINISHED) == []


@each("path", python_files("src", "tests", "bench"), ids=str)
def test_a_suppression_names_its_rule_and_its_reason(path: Path) -> None:
    bare = [
        f"{path}:{number}: {comment}"
        for number, comment in comments(path)
        if SUPPRESSION.search(comment) and not EXPLAINED_SUPPRESSION.search(comment)
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("comment", "explained"),
    [
        ("# noqa", False),
        ("# noqa: S104", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
        ("# noqa: S104 - the user asked for it", True),
        ("# noqa: S104, BLE001 (a task must never die silently)", True),
        ("# type: ignore[arg-type]  # the stub is wrong", True),
    ],
)
def test_the_suppression_rule_itself(comment: str, explained: bool) -> None:
    assert SUPPRESSION.search(comment)
    assert bool(EXPLAINED_SUPPRESSION.search(comment)) is explained


@each("path", python_files("src", "tests", "bench"), ids=str)
def test_a_module_name_says_something(path: Path) -> None:
    words = {word for name in path.with_suffix("").parts for word in name.split("_")}
    assert not words & VAGUE_NAMES


@each("path", python_files("src/tieline/core"), ids=str)
def test_the_core_names_no_protocol_and_no_backend(path: Path) -> None:
    assert matching_lines(path, PROTOCOLS_AND_BACKENDS) == []


@pytest.mark.parametrize("lock", ["run", "dev", "servers"])
def test_a_lock_holds_names_versions_and_hashes_only(lock: str) -> None:
    """No index, path or address: a lock must mean the same on every machine."""
    lines = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not any(form.fullmatch(line) for form in LOCK_LINES)] == []


def test_the_development_lock_contains_the_runtime_lock() -> None:
    """Otherwise tests would run with other versions than users get."""
    run, dev = ((ROOT / f"requirements/{name}.lock").read_text(encoding="utf-8") for name in ("run", "dev"))
    assert {line for line in run.splitlines() if "==" in line} <= set(dev.splitlines())
