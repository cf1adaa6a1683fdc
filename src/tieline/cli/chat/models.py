"""Chooses models and modes from what the user typed."""

from collections.abc import Sequence

from tieline.cli.chat.api import GatewayState, Model
from tieline.cli.chat.safe_text import one_line
from tieline.model.errors import BadRequest, GatewayError

DEMO = "demo/"
MAX_NAMED = 8
NO_MODE = "default"


def default_model(state: GatewayState) -> str:
    """Return the model for a new conversation: the configured one, or else the first model that is not an agent.

    The demo model is used only if all others are agents, and an agent only if there is nothing else.
    """
    configured = state.default_model
    if configured is not None and "*" not in configured:
        return configured
    plain = [model.id for model in state.models if not model.is_agent]
    found = next((name for name in plain if not name.startswith(DEMO)), None) or next(iter(plain), None)
    if found is None:
        found = next((model.id for model in state.models), None)
    if found is None:
        raise GatewayError("not_found", "The gateway offers no models; `tieline check-config` says why.")
    return found


def find_model(state: GatewayState, wanted: str) -> str:
    """Return the model with the name `wanted`, or the only one whose name contains it.

    Return an unknown name unchanged: it may be an alias. Raise BadRequest if several models match.
    """
    names = [model.id for model in state.models]
    if wanted in names:
        return wanted
    own = [name for name in names if name.partition("/")[2] == wanted]
    found = own if len(own) == 1 else [name for name in names if wanted.lower() in name.lower()]
    if len(found) > 1:
        more = f", … ({len(found)} in all)" if len(found) > MAX_NAMED else ""
        raise BadRequest(f"`{one_line(wanted, 60)}` matches several models: {', '.join(found[:MAX_NAMED])}{more}.")
    return found[0] if found else wanted


def find_mode(state: GatewayState, model: str, wanted: str) -> str | None:
    """Return a mode of a model; None for the default mode. Raise BadRequest if the model has no such mode."""
    modes = modes_of(state.models, model)
    if wanted == NO_MODE:
        return None
    if wanted in modes:
        return wanted
    if not modes:
        hint = "" if state.tools.enabled else " Modes need the gateway's own tools (--tools)."
        raise BadRequest(f"`{one_line(model, 60)}` has no modes.{hint}")
    raise BadRequest(
        f"`{one_line(wanted, 60)}` is not a mode of {one_line(model, 60)}: the modes are {NO_MODE}, {', '.join(modes)}."
    )


def modes_of(models: Sequence[Model], name: str) -> tuple[str, ...]:
    """Return the modes of a model."""
    return next((model.modes for model in models if model.id == name), ())


def arguments(state: GatewayState, command: str, model: str) -> Sequence[str]:
    """Return the possible arguments of a command in a chat with `model`."""
    if command == "model":
        return [one.id for one in state.models]
    return [NO_MODE, *modes_of(state.models, model)] if command == "mode" else ()


def describe(model: str, mode: str | None) -> str:
    """Return a model and its mode on one line."""
    return one_line(model, 80) + (f" · {one_line(mode, 40)} mode" if mode else "")
