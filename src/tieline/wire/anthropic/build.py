"""A request in neutral words, as an upstream of the Messages API takes it.

Everything is written in a fixed order with the messages last, so that consecutive requests of a session share their
beginning and prompt caches work.
"""

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

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
from tieline.wire.spelling import Names, Outgoing, Spelled

_COUNT = msgspec.json.Decoder(Count)
_COUNTED = ("model", "thinking", "tool_choice", "tools", "system", "messages")


def build_request(request: Request, dialect: Dialect = DEFAULT) -> Outgoing:
    """The body for /v1/messages."""
    draft = _draft(request, dialect)
    return Outgoing(encode(draft.fields), draft.spelled, tuple(dict.fromkeys(draft.notes)))


def build_count(request: Request, dialect: Dialect = DEFAULT) -> Outgoing:
    """The body for /v1/messages/count_tokens."""
    draft = _draft(request, dialect)
    counted = {name: draft.fields[name] for name in _COUNTED if name in draft.fields}
    return Outgoing(encode(counted), draft.spelled, tuple(dict.fromkeys(draft.notes)))


def read_count(body: bytes) -> int:
    """The answer of /v1/messages/count_tokens."""
    try:
        return read(_COUNT, body).input_tokens
    except Malformed as error:
        message = f"the upstream's token count is unreadable: {error}"
        raise GatewayError("upstream", message) from error


class _Draft(NamedTuple):
    fields: dict[str, Any]
    spelled: Spelled
    notes: list[Note]


def _draft(request: Request, dialect: Dialect) -> _Draft:
    notes: list[Note] = []
    names = Names(tool.name for tool in request.tools)
    freeform = frozenset(tool.name for tool in request.tools if tool.freeform)
    blocks = BlockWriter(names, notes, dialect.extensions)
    leading = split_system(request.messages)
    conversation = request.messages[leading:]
    system = [block for message in request.messages[:leading] for block in blocks.system(message)]
    forgotten = thinking.forgotten(conversation)
    history = turns(conversation, blocks, forgotten, dialect.system_in_messages)
    tools, choice = _tools(request, dialect, names, notes)
    system += structured.instructions(request.output, dialect, notes)
    _mark(request, dialect, _Prompt(tools, system, history), blocks.marked)

    sampling = request.sampling
    max_tokens = dialect.max_tokens if sampling.max_tokens is None else sampling.max_tokens
    plan = thinking.plan(request, dialect, max_tokens, thinking.Past(conversation, forgotten), notes)
    said: dict[str, Any] = {
        "model": request.model,
        "max_tokens": max_tokens,
        "stream": request.stream or None,
        **thinking.sampling(sampling, plan.on, notes),
        "stop_sequences": _stop(sampling.stop, dialect, notes),
        "thinking": plan.config,
        "output_config": structured.output_config(request, dialect, plan.effort, notes),
        **_extra(request, notes),
        "tool_choice": choice,
        "tools": tools,
        "system": system,
        "messages": history,
    }
    fields = {name: value for name, value in said.items() if value is not None and value != []}
    return _Draft(fields, Spelled(names, freeform), notes)


class _Prompt(NamedTuple):
    tools: list[Tool | Raw]
    system: list[TextBlock]
    history: list[Turn]


def _mark(request: Request, dialect: Dialect, prompt: _Prompt, marked_blocks: list[MarkedBlock]) -> None:
    marked = [tool for tool in prompt.tools if isinstance(tool, Tool) and tool.cache_control] + marked_blocks
    if marked:
        most = marks.MOST - ("cache_control" in request.extra and request.protocol == PROTOCOL)
        marks.keep_the_last(marked, most)
    elif dialect.cache == "auto" and request.protocol != PROTOCOL:
        marks.set_marks(*prompt)


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
    tools: dict[str, Tool | Raw] = {}
    for at, spec in enumerate(request.tools):
        if not _is_offered(spec, choice):
            continue
        if spec.name in tools:
            notes.append(Note(kind="left_out", message=f"tools[{at}]: a second tool of the name {spec.name!r}"))
        else:
            tools[spec.name] = _hosted(spec, at) if spec.hosted else _tool(spec, dialect, names, notes)
    if tools:
        return list(tools.values()), _tool_choice(choice, names)
    if request.tools:
        raise BadRequest("`tool_choice`: none of the tools it names is offered", "tool_choice")
    if any(_has_call(message) for message in request.messages):
        return [_dummy()], {"type": "none"}
    return [], None


def _is_offered(spec: ToolSpec, choice: ToolChoice) -> bool:
    """Whether the choice leaves this tool: the API can name one tool that must be called, but no several."""
    if not choice.names or choice.mode == "none" or (choice.mode == "required" and len(choice.names) == 1):
        return True
    return spec.name in choice.names


def _hosted(spec: ToolSpec, at: int) -> Raw:
    raw = spec.meta.get(PROTOCOL, {}).get("tool")
    if raw is None:
        raise BadRequest(
            f"`tools[{at}]`: {spec.hosted!r} is run by another upstream, this one does not have it", f"tools[{at}]"
        )
    return Raw(raw.encode())


def _tool(spec: ToolSpec, dialect: Dialect, names: Names, notes: list[Note]) -> Tool:
    schema, changes = (FREEFORM_SCHEMA, ()) if spec.freeform else for_upstream(spec.schema, "anthropic")
    notes.extend(Note(kind="schema", message=f"{spec.name}: {change}") for change in changes)
    tool = Tool(
        names.spell(spec.name),
        description=description(spec) or None,
        input_schema=Raw(schema),
        strict=spec.strict if dialect.strict_tools and not spec.freeform else None,
    )
    if spec.meta:
        if dialect.extensions:
            for name, value in spec.meta.get(PROTOCOL, {}).items():
                setattr(tool, name, value)
        if not tool.defer_loading:
            tool.cache_control = spec.meta.get("cache_control")
    return tool


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


def _has_call(message: Message) -> bool:
    return any(isinstance(part, ToolCall) for part in message.parts)
