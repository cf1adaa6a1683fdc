"""Run one test over many cases in a loop.

`@each` takes the arguments of `@pytest.mark.parametrize` and stacks like it. Use it where a case takes less time than
pytest needs for an item, and where cases may share their fixtures. All cases run; those that fail are named.
"""

import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import product
from typing import Any, NamedTuple, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
Ids = Callable[[Any], object] | Iterable[object] | None

SHOWN = 5
"""Failures of one test that are shown with a traceback; the others are only named."""
MAX_LABEL = 60
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = MAX_LABEL


class Case(NamedTuple):
    """The arguments of one call."""

    name: str
    arguments: dict[str, Any]


class Failures:
    """What went wrong in the cases so far."""

    def __init__(self) -> None:
        self._cases = 0
        self._failed: list[tuple[str, Exception]] = []

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Record what fails in here as a failure of this case."""
        self._cases += 1
        try:
            yield
        except pytest.skip.Exception as skipped:
            raise RuntimeError(f"case {name} is skipped: use pytest.mark.parametrize for such cases") from skipped
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - `check` raises it
            error.add_note(f"case: {name}")
            self._failed.append((name, error if isinstance(error, Exception) else AssertionError(str(error))))

    def check(self) -> None:
        """Raise if a case has failed."""
        if self._failed:
            names = ", ".join(name for name, _ in self._failed)
            errors = [error for _, error in self._failed[:SHOWN]]
            raise ExceptionGroup(f"{len(self._failed)} of {self._cases} cases failed: {names}", errors)


def each(names: str | Sequence[str], values: Iterable[Any], *, ids: Ids = None) -> Callable[[Test], Test]:
    """Call the decorated test once for each value, or for each tuple of values if there are several names."""
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values, label = list(values), ids if callable(ids) else _label
    names_given = [None] * len(values) if ids is None or callable(ids) else ids
    own = [_case(fields, value, name, label) for value, name in zip(values, names_given, strict=True)]
    assert own, f"no cases for {names}"

    def decorate(decorated: Test) -> Test:
        test, inner = getattr(decorated, "looped_over", (decorated, [Case("", {})]))
        cases = [_combined(one, other) for one, other in product(inner, own)]
        looped = wraps(decorated)(_looped(test, cases))
        looped.looped_over = (test, cases)  # type: ignore[attr-defined]  # for the next decorator
        parameters = inspect.signature(test).parameters
        taken = cases[0].arguments
        assert set(taken) <= set(parameters), f"{test.__name__} has no parameter for one of {list(taken)}"
        fixtures = [parameter for name, parameter in parameters.items() if name not in taken]
        looped.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]  # pytest looks here
        return looped  # type: ignore[return-value]  # it takes fixtures only

    return decorate


def _looped(test: Callable[..., Any], cases: list[Case]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(test):

        async def looped_async(**fixtures: Any) -> None:
            failures = Failures()
            for case in cases:
                with failures.of(case.name):
                    await test(**fixtures, **case.arguments)
            failures.check()

        return looped_async

    def looped(**fixtures: Any) -> None:
        failures = Failures()
        for case in cases:
            with failures.of(case.name):
                test(**fixtures, **case.arguments)
        failures.check()

    return looped


def _case(fields: list[str], value: Any, name: object, label: Callable[[Any], object]) -> Case:
    if isinstance(value, pytest.ParameterSet):
        assert not value.marks, "a case of a loop has no marks of its own"
        name, items = value.id, value.values
    else:
        items = (value,) if len(fields) == 1 else value
    if name is None:
        name = "-".join(str(label(item) or _label(item)) for item in items)
    return Case(str(name), dict(zip(fields, items, strict=True)))


def _label(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_LABEL else SHORT.repr(value)


def _combined(one: Case, other: Case) -> Case:
    return Case(f"{one.name}-{other.name}".strip("-"), {**one.arguments, **other.arguments})
