"""How much an upstream is asked to think, and which thoughts of the history it gets back.

The API checks thoughts by their signatures, and takes a turn's thoughts all or not at all; a tool loop is one turn.
A thought in the middle cannot be taken away without breaking those that follow, so when one must go, everything up to
the end of its turn goes.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from tieline.model.content import Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Note, left_out
from tieline.model.request import Reasoning, Request, Sampling
from tieline.wire.anthropic.build_content import is_blank
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.schema import PROTOCOL

MIN_BUDGET = 1024
ROOM_FOR_THE_ANSWER = 1024
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 65536}

_TOP_P_WHEN_THINKING = 0.95


class Plan(Struct, frozen=True):
    """What a request says about thinking."""

    on: bool = False
    config: Any = None
    effort: str | None = None


NO_PLAN = Plan()


def forgotten(messages: Sequence[Message]) -> int:
    """How many messages from the front lose their thoughts, because one among them has no signature."""
    end = 0
    doomed = False
    for at, message in enumerate(messages):
        if message.role == "assistant":
            doomed = doomed or is_unsigned(message)
        elif doomed and _begins_turn(message):
            end, doomed = at, False
    return len(messages) if doomed else end


def is_unsigned(message: Message) -> bool:
    """Whether the model thought something in this message that has no signature."""
    if message.role == "assistant":
        for part in message.parts:
            if type(part) is Thinking and not part.signature:
                return True
    return False


class Past(Struct):
    """A conversation, and how many of its messages lose their thoughts."""

    messages: Sequence[Message]
    forgotten: int


def _lacks_thoughts(past: Past) -> bool:
    """Whether the last turn with tool calls does not begin with a thought: with a budget the API refuses that."""
    messages, forgotten = past.messages, past.forgotten
    calls = [at for at, message in enumerate(messages) if any(isinstance(part, ToolCall) for part in message.parts)]
    if not calls:
        return False
    first = calls[-1]
    for at in range(calls[-1], -1, -1):
        if _begins_turn(messages[at]):
            break
        if messages[at].role == "assistant":
            first = at
    return first < forgotten or not _begins_with_thought(messages[first])


def _begins_turn(message: Message) -> bool:
    return message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)


def _begins_with_thought(message: Message) -> bool:
    said = (part for part in message.parts if not (isinstance(part, Text) and is_blank(part.text)))
    return isinstance(next(said, None), Thinking)


# ── The configuration ────────────────────────────────────────────────────────────────────────────


def plan(request: Request, dialect: Dialect, max_tokens: int, past: Past, notes: list[Note]) -> Plan:
    """What to say about thinking, given what this request also says."""
    reasoning = request.reasoning
    if dialect.thinking == "off":
        if reasoning.mode in ("budget", "adaptive"):
            notes.append(left_out("thinking", "this upstream is set not to think"))
        return NO_PLAN
    mode = _mode(request, dialect)
    effort = _effort(reasoning, dialect, mode, notes)
    match mode:
        case "budget":
            budget = _budget(reasoning, max_tokens, notes)
            reason = _against_budget(request, budget, past)
            if reason is None:
                return Plan(True, _config(reasoning, mode, budget), effort)
            notes.append(left_out("thinking", reason))
            return Plan(False, {"type": "disabled"}, effort)
        case "adaptive":
            return Plan(True, _config(reasoning, mode), effort)
        case "off":
            return Plan(False, _config(reasoning, mode), effort)
        case None:
            return Plan(False, _as_it_came(reasoning), effort)


def _mode(request: Request, dialect: Dialect) -> Literal["off", "budget", "adaptive"] | None:
    mode, effort = request.reasoning.mode, request.reasoning.effort
    if mode is None and effort is not None and request.protocol != PROTOCOL:
        # Elsewhere effort is how to ask for thinking; here it says how much to write, and thinking is asked for apart.
        mode = "off" if effort == "none" else "adaptive"
    return "budget" if mode == "adaptive" and not dialect.adaptive else mode


def _effort(reasoning: Reasoning, dialect: Dialect, mode: str | None, notes: list[Note]) -> str | None:
    effort: str | None = reasoning.meta.get(PROTOCOL, {}).get("effort", reasoning.effort)
    if effort is None or effort == "none":
        return None
    if not dialect.adaptive:
        if mode != "budget":
            notes.append(left_out("effort", "the upstream does not know it"))
        return None
    return "low" if effort == "minimal" else effort


def _budget(reasoning: Reasoning, max_tokens: int, notes: list[Note]) -> int:
    """Tokens to think, below max_tokens; 0 if there is no room."""
    wanted = reasoning.budget or BUDGETS.get(reasoning.effort or "medium", BUDGETS["medium"])
    if max_tokens <= MIN_BUDGET:
        return 0
    fitting = max(wanted, MIN_BUDGET)
    if fitting >= max_tokens:
        fitting = max(MIN_BUDGET, max_tokens - ROOM_FOR_THE_ANSWER)
    if fitting != reasoning.budget and reasoning.budget is not None:
        notes.append(Note(kind="thinking", message=f"budget {wanted} changed to {fitting}, max_tokens is {max_tokens}"))
    return fitting


def _against_budget(request: Request, budget: int, past: Past) -> str | None:
    if not budget:
        return f"max_tokens leaves no room for the {MIN_BUDGET} tokens it needs at least"
    if request.tool_choice.mode == "required":
        return "the API does not combine it with a tool that must be called"
    if _lacks_thoughts(past):
        return "the history has tool calls without the thoughts before them"
    return None


def _config(reasoning: Reasoning, mode: str, budget: int | None = None) -> Any:
    if mode == reasoning.mode and budget == reasoning.budget:
        as_it_came = _as_it_came(reasoning)
        if as_it_came is not None:
            return as_it_came
    match mode:
        case "budget":
            return {"type": "enabled", "budget_tokens": budget}
        case "adaptive":
            return {"type": "adaptive"}
        case _:
            return {"type": "disabled"}


def _as_it_came(reasoning: Reasoning) -> Raw | None:
    text = reasoning.meta.get(PROTOCOL, {}).get("thinking")
    return None if text is None else Raw(text.encode())


# ── What thinking rules out ──────────────────────────────────────────────────────────────────────


def sampling(wanted: Sampling, thinking: bool, notes: list[Note]) -> dict[str, float | int]:
    """The temperature, top_p and top_k the API takes together."""
    temperature, top_p, top_k = wanted.temperature, wanted.top_p, wanted.top_k
    dropped = []
    if temperature is not None and temperature > 1:
        notes.append(Note(kind="changed", message=f"temperature {temperature:g} became 1, the most there is"))
        temperature = 1.0
    if thinking:
        if temperature not in (None, 1):
            dropped.append("temperature")
        if top_k is not None:
            dropped.append("top_k")
        temperature = top_k = None
        if top_p is not None and not _TOP_P_WHEN_THINKING <= top_p <= 1:
            dropped.append("top_p")
            top_p = None
    if temperature is not None and top_p is not None:
        dropped.append("top_p")
        top_p = None
    if dropped:
        notes += [left_out(name, "not allowed together with the rest") for name in dropped]
    said = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    return {name: value for name, value in said.items() if value is not None}
