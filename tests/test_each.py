"""The loop over the cases of a test."""

import asyncio
import inspect

import pytest

from tests.each import each


def test_every_case_is_called_with_its_arguments_and_the_fixtures() -> None:
    called: list[tuple[str, int, str, str]] = []

    @each("letter", "ab")
    @pytest.mark.usefixtures("other")
    @each(("number", "word"), [(1, "one"), pytest.param(2, "two", id="second")])
    def looped(letter: str, number: int, word: str, fixture: str) -> None:
        called.append((letter, number, word, fixture))

    assert list(inspect.signature(looped).parameters) == ["fixture"]
    assert [mark.name for mark in looped.pytestmark] == ["usefixtures"]  # type: ignore[attr-defined]  # set by pytest
    looped(fixture="f")  # type: ignore[call-arg]  # the cases bring the rest
    assert sorted(called) == [("a", 1, "one", "f"), ("a", 2, "two", "f"), ("b", 1, "one", "f"), ("b", 2, "two", "f")]


def test_all_failures_are_named_and_the_other_cases_still_run() -> None:
    called: list[int] = []

    @each("number", range(4))
    def looped(number: int) -> None:
        called.append(number)
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match=r"2 of 4 cases failed: 1, 3") as caught:
        looped()  # type: ignore[call-arg]  # the cases bring the number
    assert called == [0, 1, 2, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: 1"], ["case: 3"]]


def test_a_coroutine_is_looped_over_too() -> None:
    @each("number", range(3), ids=["zero", "one", "two"])
    async def looped(number: int) -> None:
        await asyncio.sleep(0)
        if number == 1:
            pytest.fail("one is wrong")

    with pytest.raises(ExceptionGroup, match="1 of 3 cases failed: one"):
        asyncio.run(looped())  # type: ignore[call-arg]  # the cases bring the number


def test_a_case_that_skips_is_an_error_and_hides_no_other() -> None:
    @each("number", range(3))
    def looped(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(RuntimeError, match="case 0 is skipped"):
        looped()  # type: ignore[call-arg]  # the cases bring the number


def test_a_loop_over_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no cases for number"):
        each("number", [])
