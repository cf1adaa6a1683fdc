"""Modes, models and options of a session: the values that a request selects, and the changes that they require.

A model name such as `<agent>?mode=plan&model=opus&effort=high` selects the mode, the upstream model, and any option
that the agent offers. The mode may also be given in a field of the request. Agents offer modes and models as options in
the categories `mode` and `model`, or in the separate lists of an older ACP version. If an agent does both, its options
take precedence. If a request selects a value that is not offered, it fails with an error that lists the offered values.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from tieline.model.content import Value
from tieline.model.errors import BadRequest
from tieline.model.request import Request
from tieline.wire.acp import facts
from tieline.wire.shared.capabilities import plain_name

How = Literal["option", "mode", "model"]

MAX_LISTED = 40

_ALIASES: dict[str, tuple[str, ...]] = {
    "agent": ("agent", "default", "build", "code", "normal", "auto", "act"),
    "plan": ("plan", "architect", "planning", "readonlyplan"),
    "chat": ("chat", "ask", "askmode", "readonly", "read"),
}
"""For each of the three common modes, the names that agents use for it."""
_CATEGORIES = {"mode": "mode", "model": "model", "effort": "thought_level", "thinking": "thought_level"}
_TRUE = frozenset(["true", "1", "yes", "on"])
_FALSE = frozenset(["false", "0", "no", "off"])


class RequestedOptions(Value):
    """The options that a request selects: an agent, and values for `mode`, `model` and other options by name."""

    agent: str
    values: tuple[tuple[str, str], ...] = ()
    effort: str = ""
    """The reasoning effort that the request asks for. It is ignored if the agent has no option for it."""


class SessionOptions(Value):
    """The modes, models and options that a session offers, with their current values."""

    modes: facts.Choices | None = None
    models: facts.Choices | None = None
    options: tuple[facts.ConfigOption, ...] = ()


class OptionChange(NamedTuple):
    """A value to set in a session. `how` says what is set: the option with this `id`, the mode or the model."""

    how: How
    id: str
    value: str | bool


class _OptionSlot(NamedTuple):
    """A setting of a session: its id, how it is set, its current value, and its choices."""

    how: How
    id: str
    current: str | bool
    choices: Sequence[facts.NamedChoice]


def requested_options(request: Request) -> RequestedOptions:
    """Return the options that a request selects. Raise BadRequest if they are malformed."""
    return parse_model_name(request.model, request.mode or _mode_field(request), request.reasoning.effort)


def parse_model_name(model: str, mode: str | None, effort: str | None) -> RequestedOptions:
    """Parse a model name that may contain options. They take precedence over `mode` and `effort`.

    Raise BadRequest for an option without a value.
    """
    agent, _, query = model.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, value in pairs:
        if not value:
            raise BadRequest(f"`model`: `{name}` needs a value, as in `{agent}?{name}=…`", "model")
    values = dict(pairs)
    if mode:
        values.setdefault("mode", mode)
    return RequestedOptions(agent=unquote(agent), values=tuple(values.items()), effort=effort or "")


def _mode_field(request: Request) -> str | None:
    """Return the field `mode` of the request body. The field is the gateway's own extension to the APIs."""
    if (given := request.extra.get("mode")) is None:
        return None
    try:
        return msgspec.json.decode(given, type=str)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest("`mode` must be the name of a mode", "mode") from error


def modes(state: SessionOptions) -> tuple[str, ...]:
    """Return the modes that a session offers."""
    return tuple(choice.id for choice in _choices("mode", state))


def option_changes(requested: RequestedOptions, state: SessionOptions, title: str) -> list[OptionChange]:
    """Return the changes that set the requested values in a session. Raise BadRequest for a value that is not offered.

    `title` is the name of the agent in error messages.
    """
    found: list[OptionChange] = []
    for name, value in requested.values:
        setting = _setting(name, value, state, title)
        if setting is not None:
            found.append(setting)
    if requested.effort and not any(_CATEGORIES.get(name) == "thought_level" for name, _ in requested.values):
        option = _option("effort", state.options)
        chosen = option and _chosen(requested.effort, option.choices)
        if option and chosen and option.current != chosen:
            found.append(OptionChange("option", option.id, chosen))
    return found


def option_resets(
    before: SessionOptions, now: SessionOptions, requested: RequestedOptions, previous: RequestedOptions
) -> list[OptionChange]:
    """Return the changes that undo the selections of the previous request, except for options that `requested` sets.

    `before` holds the options that the session had when it was opened, and `now` holds the current options.
    """
    found: list[OptionChange] = []
    requested_values = dict(requested.values)
    for name, _ in previous.values:
        first = {(slot.how, slot.id): slot.current for slot in _slots(name, before)}
        chosen = _slot_with(requested_values[name], _slots(name, now)) if name in requested_values else None
        for slot in _slots(name, now):
            original = first.get((slot.how, slot.id), slot.current)
            if original != slot.current and slot != chosen:
                found.append(OptionChange(slot.how, slot.id, original))
    return found


def _setting(name: str, value: str, state: SessionOptions, title: str) -> OptionChange | None:
    """Return the change that sets one value; None if none is needed. Raise BadRequest if the value is not offered."""
    option = _option(name, state.options)
    if option is not None and option.kind == "boolean":
        return _flag(option, value)
    slots = [slot for slot in _slots(name, state) if slot.choices]
    if not slots:
        raise BadRequest(_unknown_option(name, state, title), "model", code="unknown_option")
    slot = _slot_with(value, slots)
    if slot is None and name == "mode" and plain_name(value) == "agent":
        # Every agent works in agent mode by default, whatever it calls that mode.
        return None
    if slot is None:
        message = f"{title} has no {name} `{value}`. It offers: {_offered(name, slots)}."
        raise BadRequest(message, "model", code="unknown_option")
    chosen = _chosen(value, slot.choices)
    return None if chosen is None or chosen == slot.current else OptionChange(slot.how, slot.id, chosen)


def _flag(option: facts.ConfigOption, value: str) -> OptionChange | None:
    if value.lower() not in _TRUE | _FALSE:
        raise BadRequest(f"`{option.id}` must be true or false, not `{value}`", "model", code="unknown_option")
    wanted = value.lower() in _TRUE
    return None if option.current is wanted else OptionChange("option", option.id, wanted)


def _slots(name: str, state: SessionOptions) -> list[_OptionSlot]:
    """Return the settings that `name` may refer to, the most specific one first.

    Some agents have several options for modes. Codex has `mode`, which determines the actions that it may take without
    asking, and `collaboration_mode` for planning.
    """
    option = _option(name, state.options)
    options = [option] if option is not None else []
    if name == "mode":
        options += [one for one in state.options if one is not option and _is_mode(one)]
    slots = [_OptionSlot("option", one.id, one.current, one.choices) for one in options]
    known = {choice.id for slot in slots for choice in slot.choices}
    if name == "mode" and state.modes is not None and not known.issuperset(one.id for one in state.modes.choices):
        slots.append(_OptionSlot("mode", "", state.modes.current, state.modes.choices))
    if name == "model" and state.models is not None and not slots:
        slots.append(_OptionSlot("model", "", state.models.current, state.models.choices))
    return slots


def _is_mode(option: facts.ConfigOption) -> bool:
    is_named_so = any(plain_name(name).endswith("mode") for name in (option.id, option.name))
    return option.kind == "select" and (option.category == "mode" or is_named_so)


def _slot_with(value: str, slots: Sequence[_OptionSlot]) -> _OptionSlot | None:
    """Return the first of `slots` whose choices include this value, or None if there is none."""
    return next((slot for slot in slots if _chosen(value, slot.choices) is not None), None)


def _offered(name: str, slots: Sequence[_OptionSlot]) -> str:
    """Return all choices as text for an error message, grouped by option if there are several options."""
    lists = {slot.id or name: _listed(choice.id for choice in slot.choices) for slot in reversed(slots)}
    if len(set(lists.values())) == 1:
        return next(iter(lists.values()))
    return "; ".join(f"{option}: {values}" for option, values in reversed(lists.items()))


def _choices(name: str, state: SessionOptions) -> Sequence[facts.NamedChoice]:
    """Return the choices of all settings that `name` may refer to, without duplicates."""
    found = {choice.id: choice for slot in reversed(_slots(name, state)) for choice in reversed(slot.choices)}
    return tuple(reversed(found.values()))


def _option(name: str, options: Iterable[facts.ConfigOption]) -> facts.ConfigOption | None:
    """Return the option with this id, category or title, or None if there is none."""
    options = list(options)
    category = _CATEGORIES.get(name, name)
    tests = (
        lambda option: option.id == name,
        lambda option: option.category == category,
        lambda option: plain_name(name) in (plain_name(option.id), plain_name(option.name)),
    )
    return next((option for test in tests for option in options if test(option)), None)


def _chosen(value: str, choices: Sequence[facts.NamedChoice]) -> str | None:
    """Find a choice by its id or name, by the end of its id, or by an alias. Return its id, or None if none matches."""
    wanted = plain_name(value)
    for choice in choices:
        if value in (choice.id, choice.name):
            return choice.id
    for choice in choices:
        if wanted in (plain_name(choice.id), plain_name(choice.name), plain_name(_end(choice.id))):
            return choice.id
    for alias in _ALIASES.get(value.lower(), ()):
        for choice in choices:
            if alias in (plain_name(_end(choice.id)), plain_name(choice.name)):
                return choice.id
    return None


def _end(name: str) -> str:
    """Return the last component of an id. Some ids are URLs, and some begin with the name of a vendor."""
    for mark in ("#", "/", ":"):
        name = name.rpartition(mark)[2]
    return name


def _unknown_option(name: str, state: SessionOptions, title: str) -> str:
    names = [option.id for option in state.options]
    names += ["mode"] if state.modes is not None and not _option("mode", state.options) else []
    names += ["model"] if state.models is not None and not _option("model", state.options) else []
    offered = f"It offers: {_listed(names)}." if names else "It offers no options."
    return f"{title} has no option `{name}`. {offered}"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
