"""A request, spelled for an upstream that speaks Chat Completions.

The order of keys is fixed and messages come last: a conversation that grows keeps the bytes of its beginning, and with
them the upstream's prompt cache.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import Effort, OutputFormat, Request, ToolChoice, ToolSpec
from tieline.wire.openai_chat.build_messages import Json, MessagesBuilder
from tieline.wire.openai_chat.dialect import DEFAULT, Dialect
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, SchemaFitter, description
from tieline.wire.shared.spelling import UNCHANGED, Names, Outgoing, Spelled

_NO_MARKS = left_out("cache_control", "not sent unless the upstream's dialect has `cache_marks`")
_OWN_EFFORT = ("reasoning_effort", "reasoning", "thinking")


def build_request(request: Request, dialect: Dialect = DEFAULT, schemas: SchemaFitter | None = None) -> Outgoing:
    """The body to send, how names were spelled in it, and what was changed or left out."""
    spelled = _spelled(request.tools, dialect) if request.tools else UNCHANGED
    names = spelled.names
    notes: list[Note] = []
    out: Json = {"model": request.model}
    if request.stream:
        out["stream"] = True
        if dialect.stream_usage:
            out["stream_options"] = {"include_usage": True}
    _add_sampling(out, request, dialect, notes)
    _add_wishes(out, request, dialect, notes)
    if request.tools:
        out["tools"] = _tools(request, names, dialect, schemas or SchemaFitter("openai"), notes)
        _add_choice(out, request, names, dialect)
    if request.extra:
        _add_extra(out, request, notes)
    messages = MessagesBuilder(request, dialect, names)
    for message in request.messages:
        messages.add(message)
    if messages.lost_marks:
        notes.append(_NO_MARKS)
    out["messages"] = messages.out
    return Outgoing(encode(out), spelled, tuple(dict.fromkeys((*notes, *messages.notes))))


def _spelled(tools: Sequence[ToolSpec], dialect: Dialect) -> Spelled:
    wrapped = [tool.name for tool in tools if tool.freeform and not dialect.freeform_tools]
    return Spelled(Names([tool.name for tool in tools if tool.hosted is None]), frozenset(wrapped))


# ── Options ──────────────────────────────────────────────────────────────────────────────────────


def _add_sampling(out: Json, request: Request, dialect: Dialect, notes: list[Note]) -> None:
    sampling = request.sampling
    if sampling.max_tokens is not None:
        out[dialect.max_tokens_field] = sampling.max_tokens
    if sampling.temperature is not None:
        out["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        out["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        if request.protocol == PROTOCOL:
            out["top_k"] = sampling.top_k
        else:
            notes.append(left_out("top_k", "there is no such field in this protocol"))
    if sampling.stop:
        _add_stop(out, sampling.stop, dialect, notes)


def _add_stop(out: Json, given: Sequence[str], dialect: Dialect, notes: list[Note]) -> None:
    stop = [text for text in given if text]
    if stop:
        out["stop"] = stop[: dialect.max_stop]
    if len(stop) > dialect.max_stop:
        notes.append(left_out("stop", f"this upstream takes {dialect.max_stop} stop strings, {len(stop)} were given"))


def _add_wishes(out: Json, request: Request, dialect: Dialect, notes: list[Note]) -> None:
    effort = _effort(request) if dialect.effort else None
    if effort is not None:
        out["reasoning_effort"] = effort
    if request.output is not None:
        out["response_format"] = _format(request.output, dialect, notes)
    if request.user is not None and request.protocol == PROTOCOL:
        out["user"] = request.user
    elif request.user is not None:
        notes.append(left_out("metadata.user_id", "the ids of users mean something else to this upstream"))
    if request.cache_key is not None:
        if dialect.cache_key:
            out["prompt_cache_key"] = request.cache_key
        else:
            notes.append(left_out("prompt_cache_key", "not sent unless the upstream's dialect has `cache_key`"))


def _effort(request: Request) -> Effort | None:
    """How hard to think, as a word; a client that said it in this protocol's other ways is not translated twice."""
    reasoning = request.reasoning
    if reasoning.mode == "off" or (reasoning.effort is None and reasoning.budget is None):
        return None
    own = request.protocol == PROTOCOL
    if own and any(name in request.extra for name in _OWN_EFFORT):
        return None
    if reasoning.effort is not None:
        # Words above "high" are understood by few upstreams: only a client of this protocol knows that its own does.
        return "high" if not own and reasoning.effort in ("xhigh", "max") else reasoning.effort
    budget = reasoning.budget or 0
    return "low" if budget <= 2048 else "medium" if budget <= 8192 else "high"


def _format(output: OutputFormat, dialect: Dialect, notes: list[Note]) -> Json:
    if output.schema is None:
        return {"type": "json_object"}
    if not dialect.json_schema:
        notes.append(left_out("output schema", "this upstream takes none, only JSON of any shape is asked for"))
        return {"type": "json_object"}
    wanted: Json = {"name": output.name, "schema": Raw(output.schema)}
    if output.strict is not None:
        wanted["strict"] = output.strict
    return {"type": "json_schema", "json_schema": wanted}


def _add_extra(out: Json, request: Request, notes: list[Note]) -> None:
    if request.protocol == PROTOCOL:
        out.update(request.extra)
    else:
        notes += [left_out(name, "a field of another protocol") for name in request.extra]


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def _tools(request: Request, names: Names, dialect: Dialect, schemas: SchemaFitter, notes: list[Note]) -> list[Any]:
    tools: dict[str, Any] = {}
    for position, spec in enumerate(request.tools):
        if spec.name in tools:
            notes.append(left_out(f"tools[{position}]", f"a second tool of the name {spec.name!r}"))
        elif spec.hosted is None:
            tools[spec.name] = _tool(spec, names, dialect, schemas, notes)
        elif (hosted := _hosted(spec, position, request, notes)) is not None:
            tools[spec.name] = hosted
    return [*tools.values()]


def _tool(tool: ToolSpec, names: Names, dialect: Dialect, schemas: SchemaFitter, notes: list[Note]) -> Json:
    name = names.spell(tool.name)
    if tool.freeform and dialect.freeform_tools:
        return {"type": "custom", "custom": _custom(tool, name)}
    function: Json = {"name": name}
    told = description(tool) if tool.freeform else tool.description
    if told:
        function["description"] = told
    if tool.freeform:
        function["parameters"] = Raw(FREEFORM_SCHEMA)
    else:
        schema, changes = schemas.fit(tool.schema)
        function["parameters"] = Raw(schema)
        if changes:
            notes += [Note(kind="schema", message=f"{tool.name}: {change}") for change in changes]
    if tool.strict is not None and dialect.strict_tools:
        function["strict"] = tool.strict
    spelled: Json = {"type": "function", "function": function}
    if tool.meta:
        _add_extensions(spelled, tool, dialect, notes)
    return spelled


def _add_extensions(out: Json, tool: ToolSpec, dialect: Dialect, notes: list[Note]) -> None:
    """What a client says of a tool beside its schema."""
    for name, value in tool.meta.items():
        if name == "cache_control":
            if dialect.cache_marks:
                out[name] = value
            else:
                notes.append(_NO_MARKS)
        elif name != PROTOCOL and isinstance(value, dict):
            extensions = [extension for extension in value if extension != "tool"]  # all of it, in that protocol
            notes += [left_out(f"tools.{extension}", "an extension of another protocol") for extension in extensions]


def _hosted(tool: ToolSpec, position: int, request: Request, notes: list[Note]) -> Any:
    """The tool as it came; one of another upstream is left out (None), unless the client relies on it."""
    whole = tool.meta.get(PROTOCOL)
    if whole is None:
        at = f"tools[{position}]"
        problem = f"this upstream cannot run the hosted tool '{tool.hosted}'"
        if tool.name in request.tool_choice.names or all(other.hosted for other in request.tools):
            raise BadRequest(f"`{at}`: {problem}", at)
        notes.append(left_out(at, problem))
    return whole


def _custom(tool: ToolSpec, name: str) -> Json:
    custom: Json = {"name": name}
    if tool.description:
        custom["description"] = tool.description
    if "format" in tool.meta:
        custom["format"] = tool.meta["format"]
    return custom


def _add_choice(out: Json, request: Request, names: Names, dialect: Dialect) -> None:
    choice = request.tool_choice
    if choice.given or choice.names or choice.mode != "auto":
        out["tool_choice"] = _choice(choice, request, names, dialect)
    if choice.parallel is not None:
        out["parallel_tool_calls"] = choice.parallel


def _choice(choice: ToolChoice, request: Request, names: Names, dialect: Dialect) -> str | Json:
    if not choice.names or choice.mode == "none":
        return choice.mode
    custom = {tool.name for tool in request.tools if tool.freeform and dialect.freeform_tools}
    tools = [_reference(name, "custom" if name in custom else "function", names) for name in choice.names]
    if len(tools) == 1 and choice.mode == "required":
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _reference(name: str, kind: str, names: Names) -> Json:
    return {"type": kind, kind: {"name": names.spell(name)}}
