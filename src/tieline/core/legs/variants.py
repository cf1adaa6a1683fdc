"""Variants of model names: suffixes with which the model picker of a client chooses how much a model thinks.

`<name>-thinking-<level>` and `<name>-<level>` stand for a reasoning effort, `<name>-thinking` for thinking without one.
`-fast` may follow; it has no meaning here.
"""

from collections.abc import Iterator
from typing import NamedTuple, get_args

from tieline.model.request import Effort, Reasoning

_FAST, _THINKING = "-fast", "-thinking"
_LEVELS: tuple[tuple[str, Effort], ...] = tuple((f"-{level}", level) for level in get_args(Effort))
_SUFFIXES = (_FAST, _THINKING, *(suffix for suffix, _ in _LEVELS))


class Variant(NamedTuple):
    """What a name would mean if its suffixes were not part of the model's name."""

    name: str
    """The name without suffixes, to which limits on models apply."""
    reasoning: Reasoning | None = None
    """What the suffixes say about thinking; it applies only if the request says nothing about it."""
    is_fast: bool = False
    """Whether `-fast` was removed."""


def may_be_variant(name: str) -> bool:
    """Return whether a name ends like a variant."""
    return name.endswith(_SUFFIXES)


def variants_of(name: str) -> Iterator[Variant]:
    """Iterate over the possible meanings of a name, those with fewer suffixes first."""
    name, is_fast = _without(name, _FAST)
    if is_fast:
        yield Variant(name, None, is_fast)
    name, thinks = _without(name, _THINKING)
    if thinks:
        yield Variant(name, Reasoning(mode="adaptive"), is_fast)
    for suffix, level in _LEVELS:
        name, has_level = _without(name, suffix)
        if has_level:
            yield Variant(name, _reasoning(level, thinks), is_fast)
            name, thinks = _without(name, _THINKING)
            if thinks:
                yield Variant(name, _reasoning(level, thinks), is_fast)
            return


def _without(name: str, suffix: str) -> tuple[str, bool]:
    return (name.removesuffix(suffix), True) if name.endswith(suffix) else (name, False)


def _reasoning(level: Effort, thinks: bool) -> Reasoning:
    # In some protocols an effort alone does not turn thinking on.
    return Reasoning(mode="adaptive" if thinks and level != "none" else None, effort=level)
