"""Build a request for a Chat Completions upstream.

The order of keys is fixed and messages come last: a conversation that grows keeps the bytes of its beginning, and with
them the upstream's prompt cache. What a client of this dialect sent goes out as it came (see `model.source`), except
for members that were changed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import Effort, OutputFormat, Request, RequestSource, ToolChoice, ToolSpec
from tieline.wire.openai_chat.build_messages import Json, MessagesBuilder
from tieline.wire.openai_chat.dialect import DEFAULT, Dialect
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, description, fit_schema
from tieline.wire.shared.sources import (
    covers,
    member_of,
    messages_json,
    settings_of,
    usable_source,
)
from tieline.wire.shared.spelling import NO_TOOL_NAMES, BuiltRequest, ToolNames

_NO_MARKS = left_out("cache_control", "not sent unless the upstream's dialect has `cache_marks`")
_TRANSLATED = frozenset(["tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens"])
"""Settings that go out just as the translation has them: with tools only, or under the name the upstream knows."""
_OWN_EFFORT = ("reasoning_effort", "reasoning", "thinking")


class _ToolList(NamedTuple):
    """The tools of a request as JSON text, and what was changed in them."""

    tools: tuple[ToolSpec, ...]
    text: Raw
    notes: tuple[Note, ...]
    is_as_sent: bool
    """Whether the client of this dialect sent them in a form that needs no change."""


def build_request(request: Request, dialect: Dialect = DEFAULT, cache: ConversationCache | None = None) -> BuiltRequest:
    """Build the body to send, with the spelling of names in it and notes about what was changed or left out."""
    tool_names = _tool_names(request.tools, dialect) if request.tools else NO_TOOL_NAMES
    notes: list[Note] = []
    settings = _settings(request, dialect, tool_names, notes)
    source = _source(request, dialect)
    tools = _tool_list(request, dialect, tool_names, source, cache) if request.tools else None
    messages = MessagesBuilder(request, dialect, tool_names)
    if source is None:
        out = _translated(request, settings, tools, messages)
    else:
        out = _copied(request, settings, tools, messages, source)
    if messages.lost_marks:
        notes.append(_NO_MARKS)
    notes += () if tools is None else tools.notes
    return BuiltRequest(encode(out), tool_names, tuple(dict.fromkeys((*notes, *messages.notes))))


def _translated(request: Request, settings: Json, tools: _ToolList | None, messages: MessagesBuilder) -> Json:
    """Build a request from its meaning."""
    out = settings
    if tools is not None:
        out["tools"] = tools.text
    for message in request.messages:
        messages.add(message)
    out["messages"] = messages.out
    return out


def _source(request: Request, dialect: Dialect) -> RequestSource | None:
    """Return the JSON of a client of this dialect, if the upstream may get it."""
    source = usable_source(request, PROTOCOL)
    if source is None or not dialect.takes_all:
        return None
    has_marks = not dialect.cache_marks and b'"cache_control"' in source.body
    return None if has_marks else source


def _copied(
    request: Request, settings: Json, tools: _ToolList | None, messages: MessagesBuilder, source: RequestSource
) -> Json:
    """Build a request from the client's own JSON, with the members replaced that have changed."""
    out = settings_of(source, settings, own=_TRANSLATED)
    if tools is None:
        out.pop("tools", None)
    elif not tools.is_as_sent:
        out["tools"] = tools.text
    out["messages"] = messages_json(request.messages, source, messages.json)
    return out


def _settings(request: Request, dialect: Dialect, names: ToolNames, notes: list[Note]) -> Json:
    """Return everything but the tools and the messages."""
    out: Json = {"model": request.model}
    if request.stream:
        out["stream"] = True
        if dialect.stream_usage:
            out["stream_options"] = {"include_usage": True}
    _add_sampling(out, request, dialect, notes)
    _add_wishes(out, request, dialect, notes)
    if request.tools:
        _add_choice(out, request, names, dialect)
    if request.extra:
        _add_extra(out, request, notes)
    return out


def _tool_names(tools: Sequence[ToolSpec], dialect: Dialect) -> ToolNames:
    wrapped = [tool.name for tool in tools if tool.freeform and not dialect.freeform_tools]
    return ToolNames(tuple([tool.name for tool in tools if tool.hosted is None]), frozenset(wrapped))


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


def _tool_list(
    request: Request, dialect: Dialect, names: ToolNames, source: RequestSource | None, cache: ConversationCache | None
) -> _ToolList:
    """Return the tools of a request, which are the same throughout a conversation."""
    key = (PROTOCOL, "tool list", id(request.tools), dialect, source is None)
    known: _ToolList | None = None if cache is None else cache.get(key)
    if known is not None and known.tools is request.tools:
        return known
    notes: list[Note] = []
    built = _tools(request, names, dialect, notes)
    is_as_sent = False
    if source is not None and request.tools is source.parsed.tools:
        is_as_sent = covers(member_of(source, "tools"), built)
    tools = _ToolList(request.tools, Raw(encode(built)), () if is_as_sent else tuple(notes), is_as_sent)
    if cache is not None and not any(tool.hosted for tool in request.tools):
        cache.put(key, tools, len(tools.text))
    return tools


def _tools(request: Request, names: ToolNames, dialect: Dialect, notes: list[Note]) -> list[Any]:
    tools: dict[str, Any] = {}
    for position, spec in enumerate(request.tools):
        if spec.name in tools:
            notes.append(left_out(f"tools[{position}]", f"a second tool of the name {spec.name!r}"))
        elif spec.hosted is None:
            tools[spec.name] = _tool(spec, names, dialect, notes)
        elif (hosted := _hosted(spec, position, request, notes)) is not None:
            tools[spec.name] = hosted
    return [*tools.values()]


def _tool(tool: ToolSpec, names: ToolNames, dialect: Dialect, notes: list[Note]) -> Json:
    name = names.to_upstream(tool.name)
    if tool.freeform and dialect.freeform_tools:
        return {"type": "custom", "custom": _custom(tool, name)}
    function: Json = {"name": name}
    told = description(tool) if tool.freeform else tool.description
    if told:
        function["description"] = told
    if tool.freeform:
        function["parameters"] = Raw(FREEFORM_SCHEMA)
    else:
        schema, changes = fit_schema(tool.schema, "openai")
        function["parameters"] = Raw(schema)
        if changes:
            notes += [Note(kind="schema", message=f"{tool.name}: {change}") for change in changes]
    if tool.strict is not None and dialect.strict_tools:
        function["strict"] = tool.strict
    out: Json = {"type": "function", "function": function}
    if tool.meta:
        _add_extensions(out, tool, dialect, notes)
    return out


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


def _add_choice(out: Json, request: Request, names: ToolNames, dialect: Dialect) -> None:
    choice = request.tool_choice
    if choice.given or choice.names or choice.mode != "auto":
        out["tool_choice"] = _choice(choice, request, names, dialect)
    if choice.parallel is not None:
        out["parallel_tool_calls"] = choice.parallel


def _choice(choice: ToolChoice, request: Request, names: ToolNames, dialect: Dialect) -> str | Json:
    if not choice.names or choice.mode == "none":
        return choice.mode
    custom = {tool.name for tool in request.tools if tool.freeform and dialect.freeform_tools}
    tools = [_reference(name, "custom" if name in custom else "function", names) for name in choice.names]
    if len(tools) == 1 and choice.mode == "required":
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _reference(name: str, kind: str, names: ToolNames) -> Json:
    return {"type": kind, kind: {"name": names.to_upstream(name)}}
