"""Variants of model names: names with suffixes, with which a client's model picker sets how much a model thinks.

`<name>-thinking-<level>` and `<name>-<level>` set the reasoning effort; `<name>-thinking` turns thinking on without an
effort. `-fast` may follow; the gateway ignores it and adds a note.
"""

from collections.abc import Iterator
from typing import NamedTuple, get_args

from tieline.model.request import Effort, Reasoning

_FAST, _THINKING = "-fast", "-thinking"
_LEVELS: tuple[tuple[str, Effort], ...] = tuple((f"-{level}", level) for level in get_args(Effort))
_SUFFIXES = (_FAST, _THINKING, *(suffix for suffix, _ in _LEVELS))


class Variant(NamedTuple):
    """One interpretation of a name: a model's name and the meaning of the suffixes after it."""

    name: str
    """The name without the suffixes. Limits on the models that a client may use apply to this name."""
    reasoning: Reasoning | None = None
    """The settings for thinking that the suffixes express. They apply only if the request has no such settings."""
    is_fast: bool = False
    """Whether one of the suffixes is `-fast`."""


def may_be_variant(name: str) -> bool:
    """Return whether a name ends with a suffix that variants can have."""
    return name.endswith(_SUFFIXES)


def variants_of(name: str) -> Iterator[Variant]:
    """Yield the possible interpretations of a name with suffixes, those with the fewest suffixes first."""
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
