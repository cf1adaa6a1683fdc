"""Modes, models and options: what a request wants of an agent's session, and how that is set.

A model is named `<agent>?mode=plan&model=opus&effort=high`: the mode, the upstream model, and any option the agent
offers; the mode may also be a field of the request. Agents offer their modes and models as options of those categories,
or in the older ways; where both are there the options count. What an agent does not offer is an error that says what it
does offer.
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

MOST_SHOWN = 40

_ALIASES: dict[str, tuple[str, ...]] = {
    "agent": ("agent", "default", "build", "code", "normal", "auto", "act"),
    "plan": ("plan", "architect", "planning", "readonlyplan"),
    "chat": ("chat", "ask", "askmode", "readonly", "read"),
}
"""What agents call the three modes that everything here has."""
_CATEGORIES = {"mode": "mode", "model": "model", "effort": "thought_level", "thinking": "thought_level"}
_TRUE = frozenset(["true", "1", "yes", "on"])
_FALSE = frozenset(["false", "0", "no", "off"])


class Wish(Value):
    """What a request wants: an agent, and values by `mode`, `model` or the name of an option."""

    agent: str
    values: tuple[tuple[str, str], ...] = ()
    effort: str = ""
    """How hard to think, as the request says it: taken where the agent has such a thing, no error where not."""


class State(Value):
    """What a session offers, and what is chosen."""

    modes: facts.Choices | None = None
    models: facts.Choices | None = None
    options: tuple[facts.ConfigOption, ...] = ()


class Setting(NamedTuple):
    """One thing to set."""

    how: How
    id: str
    value: str | bool


class _Place(NamedTuple):
    """Somewhere a value can be set: how, under which id, what it is now, and what there is to choose."""

    how: How
    id: str
    current: str | bool
    choices: Sequence[facts.Choice]


def wish_of(request: Request) -> Wish:
    """What a request wants. Raises BadRequest."""
    return read_wish(request.model, request.mode or _mode_field(request), request.reasoning.effort)


def read_wish(model: str, mode: str | None, effort: str | None) -> Wish:
    """What the name of a model and the request ask for; the name wins. Raises BadRequest."""
    agent, _, query = model.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, value in pairs:
        if not value:
            raise BadRequest(f"`model`: `{name}` needs a value, as in `{agent}?{name}=…`", "model")
    values = dict(pairs)
    if mode:
        values.setdefault("mode", mode)
    return Wish(agent=unquote(agent), values=tuple(values.items()), effort=effort or "")


def _mode_field(request: Request) -> str | None:
    """The field `mode` of the body, which no protocol of clients has: whoever sends it means us."""
    if (given := request.extra.get("mode")) is None:
        return None
    try:
        return msgspec.json.decode(given, type=str)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest("`mode` has to be the name of a mode", "mode") from error


def modes(state: State) -> tuple[str, ...]:
    """The modes that a session offers."""
    return tuple(choice.id for choice in _choices("mode", state))


def settings(wish: Wish, state: State, title: str) -> list[Setting]:
    """What has to be set so that a session is as wished. Raises BadRequest for what is not offered."""
    found: list[Setting] = []
    for name, value in wish.values:
        setting = _setting(name, value, state, title)
        if setting is not None:
            found.append(setting)
    if wish.effort and not any(_CATEGORIES.get(name) == "thought_level" for name, _ in wish.values):
        option = _option("effort", state.options)
        chosen = option and _chosen(wish.effort, option.choices)
        if option and chosen and option.current != chosen:
            found.append(Setting("option", option.id, chosen))
    return found


def back_to(before: State, now: State, wish: Wish, past: Wish) -> list[Setting]:
    """What an earlier request had set and this one does not wish any more, as it was at first."""
    found: list[Setting] = []
    wished = dict(wish.values)
    for name, _ in past.values:
        first = {(place.how, place.id): place.current for place in _places(name, before)}
        chosen = _chosen_place(wished[name], _places(name, now)) if name in wished else None
        for place in _places(name, now):
            was = first.get((place.how, place.id), place.current)
            if was != place.current and place != chosen:
                found.append(Setting(place.how, place.id, was))
    return found


def _setting(name: str, value: str, state: State, title: str) -> Setting | None:
    """How to set one thing; None if it is so already."""
    option = _option(name, state.options)
    if option is not None and option.kind == "boolean":
        return _flag(option, value)
    places = [place for place in _places(name, state) if place.choices]
    if not places:
        raise BadRequest(_unknown_option(name, state, title), "model", code="unknown_option")
    place = _chosen_place(value, places)
    if place is None and name == "mode" and plain_name(value) == "agent":
        # Whatever it is called, working by itself is what an agent does at first.
        return None
    if place is None:
        message = f"{title} has no {name} `{value}`. It offers: {_offered(name, places)}."
        raise BadRequest(message, "model", code="unknown_option")
    chosen = _chosen(value, place.choices)
    return None if chosen is None or chosen == place.current else Setting(place.how, place.id, chosen)


def _flag(option: facts.ConfigOption, value: str) -> Setting | None:
    if value.lower() not in _TRUE | _FALSE:
        raise BadRequest(f"`{option.id}` is true or false, not `{value}`", "model", code="unknown_option")
    wanted = value.lower() in _TRUE
    return None if option.current is wanted else Setting("option", option.id, wanted)


def _places(name: str, state: State) -> list[_Place]:
    """Where something of this name can be set, the usual place first.

    Some agents have several options for modes of working: Codex has `mode` for what it may do without asking and
    `collaboration_mode` for planning.
    """
    option = _option(name, state.options)
    options = [option] if option is not None else []
    if name == "mode":
        options += [one for one in state.options if one is not option and _is_mode(one)]
    places = [_Place("option", one.id, one.current, one.choices) for one in options]
    known = {choice.id for place in places for choice in place.choices}
    if name == "mode" and state.modes is not None and not known.issuperset(one.id for one in state.modes.choices):
        places.append(_Place("mode", "", state.modes.current, state.modes.choices))
    if name == "model" and state.models is not None and not places:
        places.append(_Place("model", "", state.models.current, state.models.choices))
    return places


def _is_mode(option: facts.ConfigOption) -> bool:
    is_named_so = any(plain_name(name).endswith("mode") for name in (option.id, option.name))
    return option.kind == "select" and (option.category == "mode" or is_named_so)


def _chosen_place(value: str, places: Sequence[_Place]) -> _Place | None:
    """The first place where this value can be chosen."""
    return next((place for place in places if _chosen(value, place.choices) is not None), None)


def _offered(name: str, places: Sequence[_Place]) -> str:
    """Everything there is to choose, under the option that it belongs to if there are several."""
    lists = {place.id or name: _listed(choice.id for choice in place.choices) for place in reversed(places)}
    if len(set(lists.values())) == 1:
        return next(iter(lists.values()))
    return "; ".join(f"{option}: {values}" for option, values in reversed(lists.items()))


def _choices(name: str, state: State) -> Sequence[facts.Choice]:
    """What can be chosen in all places, each once."""
    found = {choice.id: choice for place in reversed(_places(name, state)) for choice in reversed(place.choices)}
    return tuple(reversed(found.values()))


def _option(name: str, options: Iterable[facts.ConfigOption]) -> facts.ConfigOption | None:
    """The option of a name: by its id, by its category, by what it is shown as."""
    options = list(options)
    category = _CATEGORIES.get(name, name)
    tests = (
        lambda option: option.id == name,
        lambda option: option.category == category,
        lambda option: plain_name(name) in (plain_name(option.id), plain_name(option.name)),
    )
    return next((option for test in tests for option in options if test(option)), None)


def _chosen(value: str, choices: Sequence[facts.Choice]) -> str | None:
    """The id of the choice that is meant: by its id or name, by the end of its id, by another word for it."""
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
    """The last word of an id: some are addresses, some have a maker in front."""
    for mark in ("#", "/", ":"):
        name = name.rpartition(mark)[2]
    return name


def _unknown_option(name: str, state: State, title: str) -> str:
    names = [option.id for option in state.options]
    names += ["mode"] if state.modes is not None and not _option("mode", state.options) else []
    names += ["model"] if state.models is not None and not _option("model", state.options) else []
    offered = f"It offers: {_listed(names)}." if names else "It offers nothing to choose."
    return f"{title} has no option `{name}`. {offered}"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more
