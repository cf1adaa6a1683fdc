"""Build a request for a Chat Completions upstream.

The order of keys is fixed, and the messages come last. The requests in a growing conversation therefore begin with the
same bytes, so that the upstream's prompt cache works. JSON from a client that uses this protocol is sent unchanged (see
`model.source`), except for members that were changed deliberately.
"""

from collections.abc import Sequence

from msgspec import Raw

from tieline.model.events import Note, left_out
from tieline.model.request import Effort, OutputFormat, Request, RequestSource
from tieline.wire.openai_chat.build_messages import NO_MARKS, Json, MessagesBuilder
from tieline.wire.openai_chat.build_tools import ToolArray, add_choice, build_tools
from tieline.wire.openai_chat.dialect import DEFAULT, Dialect
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.effort import effort_of
from tieline.wire.shared.json import encode
from tieline.wire.shared.sources import members_of, message_texts, settings_of, usable_source, with_messages
from tieline.wire.shared.spelling import NO_TOOL_NAMES, BuiltRequest, ToolNames

_TRANSLATED = frozenset(
    ["messages", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens", "prompt_cache_key"]
)
"""Members that are not copied as a whole: their value depends on the tools, or the upstream requires another name or
does not accept them. The messages are copied one by one."""
_MARK = b'"cache_control"'
_RESPONSES = "openai_responses"
_OWN_EFFORT = ("reasoning_effort", "reasoning", "thinking")


def build_request(request: Request, dialect: Dialect = DEFAULT, cache: ConversationCache | None = None) -> BuiltRequest:
    """Build the request body for /chat/completions."""
    source = _source(request, dialect) if request.protocol == PROTOCOL else None
    tools = build_tools(request, dialect, source, cache) if request.tools else None
    names = NO_TOOL_NAMES if tools is None else tools.names
    notes: list[Note] = []
    settings = _settings(request, dialect, names, notes)
    messages = MessagesBuilder(request, dialect, names)
    if source is None:
        body = _translated(request, settings, tools, messages)
    else:
        body = _copied(request, settings, tools, messages, source)
    if messages.lost_marks:
        notes.append(NO_MARKS)
    notes += () if tools is None else tools.notes
    return BuiltRequest(body, names, tuple(dict.fromkeys((*notes, *messages.notes))))


def _translated(request: Request, settings: Json, tools: ToolArray | None, messages: MessagesBuilder) -> bytes:
    """Return a request built from parsed values only, without the client's JSON."""
    out = settings
    if tools is not None:
        out["tools"] = tools.text
    for message in request.messages:
        messages.add(message)
    out["messages"] = messages.out
    return encode(out)


def _source(request: Request, dialect: Dialect) -> RequestSource | None:
    """Return the client's JSON request; None if its settings were changed, or if the upstream might reject it."""
    source = usable_source(request, PROTOCOL)
    if source is None or not dialect.takes_all:
        return None
    if not dialect.cache_marks:
        text = b"".join((bytes(source.fields.tools), *filter(None, source.messages)))
        if text.rfind(_MARK) >= 0:  # in a long text, searching backwards is several times as fast
            return None
    return source


def _copied(
    request: Request, settings: Json, tools: ToolArray | None, messages: MessagesBuilder, source: RequestSource
) -> bytes:
    """Return the client's JSON request with the changed members replaced."""
    out = settings_of(members_of(source.fields), settings, own=_TRANSLATED)
    if tools is None:
        out.pop("tools", None)
    elif not tools.is_as_sent:
        out["tools"] = tools.text
    return with_messages(out, message_texts(request.messages, source, messages.json))


def _settings(request: Request, dialect: Dialect, names: ToolNames, notes: list[Note]) -> Json:
    """Return all members of the request except the tools and the messages."""
    out: Json = {"model": request.model}
    if request.stream:
        out["stream"] = True
        if dialect.stream_usage:
            out["stream_options"] = {"include_usage": True}
    _add_sampling(out, request, dialect, notes)
    _add_options(out, request, dialect, notes)
    if request.tools:
        add_choice(out, request, names, dialect)
    if request.extra:
        _add_extra(out, request, notes)
    return out


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


def _add_stop(out: Json, sequences: Sequence[str], dialect: Dialect, notes: list[Note]) -> None:
    stop = [text for text in sequences if text]
    if stop:
        out["stop"] = stop[: dialect.max_stop]
    if len(stop) > dialect.max_stop:
        notes.append(left_out("stop", f"this upstream accepts {dialect.max_stop} stop strings, not {len(stop)}"))


def _add_options(out: Json, request: Request, dialect: Dialect, notes: list[Note]) -> None:
    effort = _effort(request) if dialect.effort else None
    if effort is not None:
        out["reasoning_effort"] = effort
    if request.output is not None:
        out["response_format"] = _format(request.output, dialect, notes)
    if request.user is not None and request.protocol in (PROTOCOL, _RESPONSES):
        out["user"] = request.user
    elif request.user is not None:
        notes.append(left_out("metadata.user_id", "user ids have another meaning for this upstream"))
    if request.cache_key is not None:
        if dialect.cache_key:
            out["prompt_cache_key"] = request.cache_key
        else:
            notes.append(left_out("prompt_cache_key", "not sent unless the upstream's dialect has `cache_key`"))


def _effort(request: Request) -> Effort | None:
    """Return the reasoning effort to send; None if none was requested, or if the client's own field is forwarded."""
    reasoning = request.reasoning
    own = request.protocol == PROTOCOL
    if own and any(name in request.extra for name in _OWN_EFFORT):
        return None
    return effort_of(reasoning, own)


def _format(output: OutputFormat, dialect: Dialect, notes: list[Note]) -> Json:
    if output.schema is None:
        return {"type": "json_object"}
    if not dialect.json_schema:
        notes.append(left_out("output schema", "this upstream accepts no schema, so JSON of any form is requested"))
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
