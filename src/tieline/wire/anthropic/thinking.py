"""Thinking in a request: the settings for it, and the earlier thinking in the history.

The API verifies earlier thinking by its signatures. For each turn, it requires either all of the thinking or none. All
calls that follow the same user message belong to one turn. If a thinking block cannot be sent, all thinking in the
history up to the end of its turn is removed.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from tieline.model.content import Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Note, left_out
from tieline.model.request import Reasoning, Request, Sampling
from tieline.wire.anthropic.build_content import is_blank
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.parse_content import is_signed
from tieline.wire.anthropic.schema import PROTOCOL

MIN_BUDGET = 1024
MIN_ANSWER = 1024
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 65536}

_TOP_P_WHEN_THINKING = 0.95


class ThinkingSettings(Struct, frozen=True):
    """The settings for thinking in a request to an upstream. `config` is the member `thinking` of the request."""

    on: bool = False
    config: Any = None
    effort: str | None = None


NO_THINKING = ThinkingSettings()


def count_stripped(messages: Sequence[Message]) -> int:
    """Return the number of messages at the start of the history whose thinking must be removed.

    These are the messages up to the end of the last turn that contains thinking without a signature.
    """
    end = 0
    is_unsigned_turn = False
    for at, message in enumerate(messages):
        if message.role == "assistant":
            is_unsigned_turn = is_unsigned_turn or is_unsigned(message)
        elif is_unsigned_turn and _begins_turn(message):
            end, is_unsigned_turn = at, False
    return len(messages) if is_unsigned_turn else end


def is_unsigned(message: Message) -> bool:
    """Return whether an assistant message contains thinking without a signature."""
    if message.role == "assistant":
        for part in message.parts:
            if type(part) is Thinking and not is_signed(part):
                return True
    return False


class Past(Struct):
    """The messages of a conversation. The thinking in the first `stripped` messages is not sent."""

    messages: Sequence[Message]
    stripped: int


def _lacks_thinking(past: Past) -> bool:
    """Return whether the last turn with tool calls does not start with thinking.

    The API rejects such a conversation if the request has a thinking budget.
    """
    messages, stripped = past.messages, past.stripped
    calls = [at for at, message in enumerate(messages) if any(isinstance(part, ToolCall) for part in message.parts)]
    if not calls:
        return False
    first = calls[-1]
    for at in range(calls[-1], -1, -1):
        if _begins_turn(messages[at]):
            break
        if messages[at].role == "assistant":
            first = at
    return first < stripped or not _begins_with_thinking(messages[first])


def _begins_turn(message: Message) -> bool:
    return message.role == "user" and not any(isinstance(part, ToolResult) for part in message.parts)


def _begins_with_thinking(message: Message) -> bool:
    parts = (part for part in message.parts if not (isinstance(part, Text) and is_blank(part.text)))
    return isinstance(next(parts, None), Thinking)


# ── The configuration ────────────────────────────────────────────────────────────────────────────


def settings(request: Request, dialect: Dialect, max_tokens: int, past: Past, notes: list[Note]) -> ThinkingSettings:
    """Return thinking settings that the API accepts for this request. Add a note for each changed setting."""
    reasoning = request.reasoning
    if dialect.thinking == "off":
        if reasoning.mode in ("budget", "adaptive"):
            notes.append(left_out("thinking", "thinking is off in the dialect of this upstream"))
        return NO_THINKING
    mode = _mode(request, dialect)
    effort = _effort(reasoning, dialect, mode, notes)
    match mode:
        case "budget":
            budget = _budget(reasoning, max_tokens, notes)
            reason = _against_budget(request, budget, past)
            if reason is None:
                return ThinkingSettings(True, _config(reasoning, mode, budget), effort)
            notes.append(left_out("thinking", reason))
            return ThinkingSettings(False, {"type": "disabled"}, effort)
        case "adaptive":
            return ThinkingSettings(True, _config(reasoning, mode), effort)
        case "off":
            return ThinkingSettings(False, _config(reasoning, mode), effort)
        case None:
            return ThinkingSettings(False, _as_sent(reasoning), effort)


def _mode(request: Request, dialect: Dialect) -> Literal["off", "budget", "adaptive"] | None:
    mode, effort = request.reasoning.mode, request.reasoning.effort
    if mode is None and effort is not None and request.protocol != PROTOCOL:
        # In other protocols, an effort also enables thinking; in this one, thinking is enabled separately.
        mode = "off" if effort == "none" else "adaptive"
    return "budget" if mode == "adaptive" and not dialect.adaptive else mode


def _effort(reasoning: Reasoning, dialect: Dialect, mode: str | None, notes: list[Note]) -> str | None:
    effort: str | None = reasoning.meta.get(PROTOCOL, {}).get("effort", reasoning.effort)
    if effort is None or effort == "none":
        return None
    if not dialect.adaptive:
        if mode != "budget":
            notes.append(left_out("effort", "the upstream does not support it"))
        return None
    return "low" if effort == "minimal" else effort


def _budget(reasoning: Reasoning, max_tokens: int, notes: list[Note]) -> int:
    """Return the thinking budget, which must be less than max_tokens; 0 if max_tokens is too small for any budget."""
    wanted = reasoning.budget or BUDGETS.get(reasoning.effort or "medium", BUDGETS["medium"])
    if max_tokens <= MIN_BUDGET:
        return 0
    fitting = max(wanted, MIN_BUDGET)
    if fitting >= max_tokens:
        fitting = max(MIN_BUDGET, max_tokens - MIN_ANSWER)
    if fitting != reasoning.budget and reasoning.budget is not None:
        notes.append(Note(kind="thinking", message=f"budget {wanted} changed to {fitting}, max_tokens is {max_tokens}"))
    return fitting


def _against_budget(request: Request, budget: int, past: Past) -> str | None:
    if not budget:
        return f"max_tokens is too small for the minimum of {MIN_BUDGET} tokens"
    if request.tool_choice.mode == "required":
        return "the API does not allow it with a required tool"
    if _lacks_thinking(past):
        return "the history has tool calls without the thinking before them"
    return None


def _config(reasoning: Reasoning, mode: str, budget: int | None = None) -> Any:
    if mode == reasoning.mode and budget == reasoning.budget:
        as_sent = _as_sent(reasoning)
        if as_sent is not None:
            return as_sent
    match mode:
        case "budget":
            return {"type": "enabled", "budget_tokens": budget}
        case "adaptive":
            return {"type": "adaptive"}
        case _:
            return {"type": "disabled"}


def _as_sent(reasoning: Reasoning) -> Raw | None:
    text = reasoning.meta.get(PROTOCOL, {}).get("thinking")
    return None if text is None else Raw(text.encode())


# ── Sampling ─────────────────────────────────────────────────────────────────────────────────────


def add_sampling(fields: dict[str, Any], wanted: Sampling, thinking: bool, notes: list[Note]) -> None:
    """Add the temperature, top_p and top_k to `fields`, and a note for each setting that is changed or left out.

    `thinking` says whether thinking is on. The API rejects some combinations of these settings with each other and with
    thinking.
    """
    temperature, top_p, top_k = wanted.temperature, wanted.top_p, wanted.top_k
    dropped: list[str] = []
    if temperature is not None and temperature > 1:
        notes.append(Note(kind="changed", message=f"temperature {temperature:g} changed to 1, the maximum"))
        temperature = 1.0
    if thinking:
        dropped = _rejected_when_thinking(temperature, top_p, top_k)
        temperature = top_k = None
        top_p = None if "top_p" in dropped else top_p
    if temperature is not None and top_p is not None:
        dropped.append("top_p")
        top_p = None
    if dropped:
        notes += [left_out(name, "not allowed together with the other settings") for name in dropped]
    if temperature is not None:
        fields["temperature"] = temperature
    if top_p is not None:
        fields["top_p"] = top_p
    if top_k is not None:
        fields["top_k"] = top_k


def _rejected_when_thinking(temperature: float | None, top_p: float | None, top_k: int | None) -> list[str]:
    """Return the names of the settings that the API rejects together with thinking."""
    is_rejected = {
        "temperature": temperature not in (None, 1),
        "top_k": top_k is not None,
        "top_p": top_p is not None and not _TOP_P_WHEN_THINKING <= top_p <= 1,
    }
    return [name for name, rejected in is_rejected.items() if rejected]
