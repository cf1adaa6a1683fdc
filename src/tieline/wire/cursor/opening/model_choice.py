"""Parse the requested model: a name with options, as in `gpt-5?mode=plan&effort=high`.

Options in the name take precedence over the request's settings for thinking and effort, because many clients send such
settings with every request.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, get_args
from urllib.parse import unquote

from tieline.model.content import Value
from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import Reasoning
from tieline.wire.cursor._pb.shared_pb2 import AgentMode, ModelDetails, RequestedModel
from tieline.wire.cursor.models import AUTO, DEFAULT, CursorModel

Mode = Literal["agent", "ask", "plan", "debug"]

MODES: Mapping[str, AgentMode] = {
    "agent": AgentMode.AGENT_MODE_AGENT,
    "ask": AgentMode.AGENT_MODE_ASK,
    "plan": AgentMode.AGENT_MODE_PLAN,
    "debug": AgentMode.AGENT_MODE_DEBUG,
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
SWITCHES = ("thinking", "fast", "max")
OPTIONS = ("mode", "effort", "reasoning", "context", *SWITCHES)

_WORD = re.compile(r"[A-Za-z0-9._-]{1,32}\Z")
_EFFORT_IN_NAME = re.compile(rf"-(?:{'|'.join(EFFORTS)})(?:-|\Z)")
_THINKING_IN_NAME = re.compile(r"-thinking(?:-|\Z)")


class ModelChoice(Value):
    """The model of a run, the agent mode in which it works, and its parameters as name-value pairs.

    `max_mode` is None if the request does not specify whether to use Cursor's max mode.
    """

    id: str
    mode: Mode = "agent"
    parameters: tuple[tuple[str, str], ...] = ()
    max_mode: bool | None = None

    def details(self) -> ModelDetails:
        """Return the choice in the form that older versions of the service read."""
        return ModelDetails(model_id=self.id, max_mode=self.max_mode)

    def requested(self) -> RequestedModel:
        """Return the choice in the form that newer versions of the service read."""
        parameters = [RequestedModel.ModelParameterValue(id=name, value=value) for name, value in self.parameters]
        return RequestedModel(model_id=self.id, max_mode=bool(self.max_mode), parameters=parameters)


def split_model(name: str) -> ModelChoice:
    """Parse a model name with options; raise BadRequest if the name is empty or an option is invalid."""
    model_id, _, query = name.partition("?")
    if not model_id.strip():
        raise BadRequest(f"`model`: {name!r} names no model", "model")
    options = dict(_option(option) for option in query.split("&") if option)
    mode = options.pop("mode", "agent")
    max_mode = options.pop("max", None)
    return ModelChoice(
        id=DEFAULT if model_id == AUTO else model_id,
        mode=_mode(mode),
        parameters=tuple(options.items()),
        max_mode=None if max_mode is None else max_mode == "true",
    )


def choose(name: str, reasoning: Reasoning, known: CursorModel | None, notes: list[Note]) -> ModelChoice:
    """Return the model and parameters that a request selects with its model name and reasoning settings.

    `known` describes the model and its parameters; None if the model is unknown. A setting for which the model has no
    parameter or no comparable value is left out, and a note about it is added to `notes`.
    """
    choice = split_model(name)
    in_name = {parameter for parameter, _ in choice.parameters}
    asked = _asked(reasoning)
    if "thinking" in in_name or _THINKING_IN_NAME.search(choice.id):
        asked.pop("thinking", None)
    if in_name & {"effort", "reasoning"} or _EFFORT_IN_NAME.search(choice.id):
        asked.pop("effort", None)
    if known is not None and known.parameters:
        asked = _fitted(asked, known.parameters, notes)
    if not asked:
        return choice
    return ModelChoice(
        id=choice.id,
        mode=choice.mode,
        parameters=(*choice.parameters, *asked.items()),
        max_mode=choice.max_mode,
    )


# ── Options in the name ──────────────────────────────────────────────────────────────────────────


def _option(option: str) -> tuple[str, str]:
    name, equals, value = (unquote(piece) for piece in option.partition("="))
    if name not in OPTIONS:
        raise BadRequest(f"`model`: there is no option {name!r}; there are {_listed(OPTIONS)}", "model")
    if name in SWITCHES:
        if value not in ("true", "false") and equals:
            raise BadRequest(f"`model`: {name} is `true` or `false`, not {value!r}", "model")
        return name, value or "true"
    if not _WORD.match(value):
        raise BadRequest(f"`model`: {name} is a word, not {value!r}", "model")
    return name, value


def _mode(name: str) -> Mode:
    """Return the mode with this name; `chat` is another name for `ask`. Raise BadRequest if the name is unknown."""
    name = "ask" if name == "chat" else name
    for mode in get_args(Mode):
        if name == mode:
            found: Mode = mode
            return found
    raise BadRequest(f"`model`: there is no mode {name!r}; there are {_listed(MODES)}", "model")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# ── Settings in the request ──────────────────────────────────────────────────────────────────────


def _asked(reasoning: Reasoning) -> dict[str, str]:
    """Return the request's settings for thinking and effort as model parameters."""
    effort = reasoning.effort
    if reasoning.mode == "off" or effort == "none":
        return {"thinking": "false"}
    asked = {"thinking": "true"} if reasoning.mode is not None else {}
    if effort is not None:
        asked["effort"] = effort if effort in EFFORTS else EFFORTS[0]
    elif reasoning.budget is not None:
        asked["effort"] = _effort_for(reasoning.budget)
    return asked


def _effort_for(budget: int) -> str:
    """Return the effort that corresponds to a thinking budget in tokens. It is never higher than `high`."""
    if budget <= 4096:
        return "low"
    return "medium" if budget <= 16384 else "high"


def _fitted(asked: Mapping[str, str], known: Mapping[str, tuple[str, ...]], notes: list[Note]) -> dict[str, str]:
    """Return the parameters in `asked` that the model supports.

    `known` contains the supported values of each parameter. An unsupported effort is replaced by the nearest supported
    one. Settings that are left out are added to `notes`.
    """
    fitted: dict[str, str] = {}
    for name, value in asked.items():
        own = "reasoning" if name == "effort" and name not in known else name
        if own not in known:
            notes.append(left_out(name, "the model has no such parameter"))
        elif value in known[own] or value not in EFFORTS:
            fitted[own] = value
        else:
            levels = [level for level in EFFORTS if level in known[own]]
            if levels:
                fitted[own] = min(levels, key=lambda level: abs(EFFORTS.index(level) - EFFORTS.index(value)))
            else:
                notes.append(left_out(name, f"the model supports only {', '.join(known[own])}"))
    return fitted
