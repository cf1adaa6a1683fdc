"""A request in neutral words, as an upstream of the Messages API takes it.

Everything is written in a fixed order with the messages last, so that consecutive requests of a session share their
beginning and prompt caches work.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from tieline.model.content import Message, ToolCall
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Note
from tieline.model.request import EMPTY_SCHEMA, Request, ToolChoice, ToolSpec
from tieline.wire.anthropic import marks, structured, thinking
from tieline.wire.anthropic.dialect import DEFAULT, Dialect
from tieline.wire.anthropic.parts import BlockWriter
from tieline.wire.anthropic.schema import PROTOCOL, Count, MarkedBlock, TextBlock, Tool
from tieline.wire.anthropic.turns import Turn, split_system, turns
from tieline.wire.json import Malformed, encode, read
from tieline.wire.schemas import FREEFORM_SCHEMA, description, for_upstream
from tieline.wire.spelling import UNCHANGED, Names, Outgoing, Spelled, spelled_as

_COUNT = msgspec.json.Decoder(Count)
_FREEFORM = Raw(FREEFORM_SCHEMA)
_COUNTED = ("model", "thinking", "tool_choice", "tools", "system", "messages")


def build_request(request: Request, dialect: Dialect = DEFAULT) -> Outgoing:
    """The body for /v1/messages."""
    draft = _draft(request, dialect)
    return Outgoing(encode(draft.fields), draft.spelled, tuple(dict.fromkeys(draft.notes)) if draft.notes else ())


def build_count(request: Request, dialect: Dialect = DEFAULT) -> Outgoing:
    """The body for /v1/messages/count_tokens."""
    draft = _draft(request, dialect)
    counted = {name: draft.fields[name] for name in _COUNTED if name in draft.fields}
    return Outgoing(encode(counted), draft.spelled, tuple(dict.fromkeys(draft.notes)) if draft.notes else ())


def read_count(body: bytes) -> int:
    """The answer of /v1/messages/count_tokens."""
    try:
        return read(_COUNT, body).input_tokens
    except Malformed as error:
        message = f"the upstream's token count is unreadable: {error}"
        raise GatewayError("upstream", message) from error


class _Draft(Struct):
    fields: dict[str, Any]
    spelled: Spelled
    notes: list[Note]


def _draft(request: Request, dialect: Dialect) -> _Draft:
    """Everything to be said. Whole stages are passed over where the request has nothing for them."""
    notes: list[Note] = []
    spelled = _spelled(request.tools) if request.tools else UNCHANGED
    blocks = BlockWriter(spelled.names, notes, dialect.extensions)
    leading = split_system(request.messages)
    conversation = request.messages[leading:]
    system: list[TextBlock] = []
    for message in request.messages[:leading]:
        system += blocks.system(message)
    forgotten = thinking.forgotten(conversation)
    history = turns(conversation, blocks, forgotten, dialect.system_in_messages)
    if request.tools:
        tools, choice = _tools(request, dialect, spelled.names, notes)
    elif _has_calls(request.messages):
        tools, choice = [_dummy()], {"type": "none"}
    else:
        tools, choice = [], None
    if request.output is not None:
        system += structured.instructions(request.output, dialect, notes)
    _mark(request, dialect, _Prompt(tools, system, history), blocks.marked)

    fields = _settings(request, dialect, thinking.Past(conversation, forgotten), notes)
    if choice is not None:
        fields["tool_choice"] = choice
    if tools:
        fields["tools"] = tools
    if system:
        fields["system"] = system
    fields["messages"] = history
    return _Draft(fields, spelled, notes)


def _spelled(tools: tuple[ToolSpec, ...]) -> Spelled:
    names = tuple([tool.name for tool in tools])
    return spelled_as(names, frozenset([tool.name for tool in tools if tool.freeform]))


class _Prompt(Struct):
    tools: list[Tool | Raw]
    system: list[TextBlock]
    history: list[Turn]


def _mark(request: Request, dialect: Dialect, prompt: _Prompt, marked_blocks: list[MarkedBlock]) -> None:
    marked = [tool for tool in prompt.tools if type(tool) is Tool and tool.cache_control] + marked_blocks
    if marked:
        most = marks.MOST - ("cache_control" in request.extra and request.protocol == PROTOCOL)
        marks.keep_the_last(marked, most)
    elif dialect.cache == "auto" and request.protocol != PROTOCOL:
        marks.set_marks(prompt.tools, prompt.system, prompt.history)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def _settings(request: Request, dialect: Dialect, past: thinking.Past, notes: list[Note]) -> dict[str, Any]:
    """What is said before the prompt."""
    sampling = request.sampling
    max_tokens = dialect.max_tokens if sampling.max_tokens is None else sampling.max_tokens
    fields: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
    if request.stream:
        fields["stream"] = True
    plan = thinking.plan(request, dialect, max_tokens, past, notes)
    if not (sampling.temperature is None and sampling.top_p is None and sampling.top_k is None):
        fields |= thinking.sampling(sampling, plan.on, notes)
    if sampling.stop and (stop := _stop(sampling.stop, dialect, notes)):
        fields["stop_sequences"] = stop
    if plan.config is not None:
        fields["thinking"] = plan.config
    if request.output is not None or plan.effort is not None or request.reasoning.meta:
        fields |= structured.output_config(request, dialect, plan.effort, notes)
    if request.extra or request.user is not None:
        fields |= _extra(request, notes)
    return fields


def _extra(request: Request, notes: list[Note]) -> dict[str, Any]:
    """Fields of this protocol as they came; those of another are named and left out."""
    if request.protocol == PROTOCOL:
        extra: dict[str, Any] = dict(request.extra)
    else:
        extra = {}
        if request.extra:
            notes.append(Note(kind="left_out", message=f"fields of another protocol: {', '.join(request.extra)}"))
    if request.user is not None and "metadata" not in extra:
        extra["metadata"] = {"user_id": request.user}
    return extra


def _stop(stop: tuple[str, ...], dialect: Dialect, notes: list[Note]) -> list[str]:
    kept = [sequence for sequence in stop if sequence.strip()]
    if len(kept) < len(stop):
        notes.append(Note(kind="left_out", message="stop sequences of nothing but white space"))
    if len(kept) > dialect.stop_limit:
        notes.append(Note(kind="left_out", message=f"all but the first {dialect.stop_limit} stop sequences"))
    return kept[: dialect.stop_limit]


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def _tools(
    request: Request, dialect: Dialect, names: Names, notes: list[Note]
) -> tuple[list[Tool | Raw], dict[str, Any] | None]:
    choice = request.tool_choice
    left = _left_by(choice)
    tools: dict[str, Tool | Raw] = {}
    for at, spec in enumerate(request.tools):
        if left is not None and spec.name not in left:
            continue
        if spec.name in tools:
            notes.append(Note(kind="left_out", message=f"tools[{at}]: a second tool of the name {spec.name!r}"))
        elif not spec.hosted:
            tools[spec.name] = _tool(spec, dialect, names, notes)
        elif (hosted := _hosted(spec, at, request, notes)) is not None:
            tools[spec.name] = hosted
    if not tools:
        raise BadRequest("`tool_choice`: none of the tools it names is offered", "tool_choice")
    return [*tools.values()], _tool_choice(choice, names)


def _left_by(choice: ToolChoice) -> tuple[str, ...] | None:
    """The tools that the choice leaves, if not all: the API can name one tool that must be called, but no several."""
    if not choice.names or choice.mode == "none" or (choice.mode == "required" and len(choice.names) == 1):
        return None
    return choice.names


def _hosted(spec: ToolSpec, at: int, request: Request, notes: list[Note]) -> Raw | None:
    """The tool as it came; one of another upstream is left out, unless the client relies on it."""
    raw = spec.meta.get(PROTOCOL, {}).get("tool")
    if raw is not None:
        return Raw(raw.encode())
    place = f"tools[{at}]"
    problem = f"{spec.hosted!r} is run by another upstream, this one does not have it"
    if spec.name in request.tool_choice.names or all(tool.hosted for tool in request.tools):
        raise BadRequest(f"`{place}`: {problem}", place)
    notes.append(Note(kind="left_out", message=f"{place}: {problem}"))
    return None


def _tool(spec: ToolSpec, dialect: Dialect, names: Names, notes: list[Note]) -> Tool:
    tool = Tool(names.spell(spec.name))
    if spec.freeform:
        tool.description = description(spec) or None
        tool.input_schema = _FREEFORM
    else:
        schema, changes = for_upstream(spec.schema, "anthropic")
        tool.description = spec.description or None
        tool.input_schema = Raw(schema)
        tool.strict = spec.strict if dialect.strict_tools else None
        if changes:
            notes.extend(Note(kind="schema", message=f"{spec.name}: {change}") for change in changes)
    if spec.meta:
        _add_meta(tool, spec, dialect)
    return tool


def _add_meta(tool: Tool, spec: ToolSpec, dialect: Dialect) -> None:
    if dialect.extensions:
        for name, value in spec.meta.get(PROTOCOL, {}).items():
            setattr(tool, name, value)
    if not tool.defer_loading:
        tool.cache_control = spec.meta.get("cache_control")


def _dummy() -> Tool:
    """The API refuses a history with calls when no tool is offered."""
    return Tool(
        "unavailable",
        description="Stands for tools that were used earlier and are not available now. Never call it.",
        input_schema=Raw(EMPTY_SCHEMA),
    )


def _tool_choice(choice: ToolChoice, names: Names) -> dict[str, Any] | None:
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "required":
        said: dict[str, Any] = {"type": "any"}
        if len(choice.names) == 1:
            said = {"type": "tool", "name": names.spell(choice.names[0])}
    elif choice.given or choice.parallel is False:
        said = {"type": "auto"}
    else:
        return None
    if choice.parallel is False or (choice.parallel and choice.given):
        said["disable_parallel_tool_use"] = not choice.parallel
    return said


def _has_calls(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                return True
    return False
