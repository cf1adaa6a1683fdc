"""The table of `docs/tool-calling.md`: every known failure with its tests, made from the tests themselves."""

import re
from collections import defaultdict
from pathlib import Path

from tests.catalogue.entries import ADDED, GROUPS
from tests.conftest import Golden

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "tool-calling.md"

HEAD = """\
# Tool calling: known failures, and the tests for them

Each row is a failure that users of gateways have reported. It is *tested* if the tests with its number cover every
direction and mode in which it can occur, and *open* if it concerns a part that is not built yet.
This page is generated from the tests: `pytest tests/catalogue/test_table.py --rewrite`.
"""

DONE_GROUPS = 6
"""The groups that concern what is built; the others wait for their protocols."""

NOT_HERE: dict[int, str] = {}
"""Entries of those groups that only a protocol still to come can show."""


def found_by_number() -> dict[int, list[str]]:
    """The tests of each entry, as `file::name`, found by their names."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        for name in re.findall(r"^(?:async )?def (test_\d{3}_\w+)", path.read_text("utf-8"), re.MULTILINE):
            found[int(name[5:8])].append(f"{path.name}::{name}")
    return found


def page() -> str:
    """The whole page."""
    tests = found_by_number()
    lines = [HEAD]
    number = 0
    for group in GROUPS:
        lines += [f"## {group.title}", "", "| # | what goes wrong | state | tests |", "|---|---|---|---|"]
        for entry in group.entries:
            number += 1
            state = "tested" if tests[number] else f"open: {NOT_HERE[number]}" if number in NOT_HERE else "open"
            names = "<br>".join(f"`{name}`" for name in tests[number])
            lines.append(f"| {number} | {entry} | {state} | {names} |")
        lines.append("")
    lines += ["## Added later", "", "| # | what goes wrong | state | tests |", "|---|---|---|---|"]
    for number, entry in sorted(ADDED.items()):
        names = "<br>".join(f"`{name}`" for name in tests[number])
        lines.append(f"| {number} | {entry} | tested | {names} |")
    return "\n".join([*lines, ""])


def test_the_page_lists_every_entry_with_its_tests(golden: Golden) -> None:
    golden(PAGE, page().encode())


def test_every_entry_that_can_occur_today_has_a_test() -> None:
    tests = found_by_number()
    last = sum(len(group.entries) for group in GROUPS[:DONE_GROUPS])
    assert [number for number in range(1, last + 1) if not tests[number] and number not in NOT_HERE] == []


def test_every_added_entry_has_a_test_and_every_numbered_test_an_entry() -> None:
    tests = found_by_number()
    assert sorted(number for number in tests if number > 148) == sorted(ADDED)


def test_there_are_as_many_entries_as_numbers() -> None:
    assert sum(len(group.entries) for group in GROUPS) == 148
    assert [len(group.entries) for group in GROUPS] == [38, 16, 29, 13, 5, 22, 11, 14]
