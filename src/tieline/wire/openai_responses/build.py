"""Build a request for a Responses upstream.

Without a checkpoint, a request contains the whole history, including the encrypted reasoning of earlier answers. With a
checkpoint, it contains only the messages after the model's last one, and the id of the response that the upstream has
stored (see ADR 21). The input comes last. Thus the requests in a growing conversation begin with the same bytes, so
that the upstream's prompt cache works. If the client uses this protocol, its JSON is sent unchanged (see
`model.source`), except for members that the gateway changes deliberately.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.content import Message
from tieline.model.events import Note, left_out
from tieline.model.request import OutputFormat, Request, RequestSource
from tieline.wire.openai_responses.build_items import ItemsBuilder, Json, is_instructions
from tieline.wire.openai_responses.build_tools import ToolArray, add_choice, build_tools, tool_names
from tieline.wire.openai_responses.dialect import DEFAULT, Dialect
from tieline.wire.openai_responses.parse import ENCRYPTED
from tieline.wire.openai_responses.schema import PROTOCOL, STATE_FIELDS
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.effort import effort_of
from tieline.wire.shared.json import decode_any, encode
from tieline.wire.shared.sources import members_of, message_texts, settings_of, usable_source
from tieline.wire.shared.spelling import NO_TOOL_NAMES, BuiltRequest, ToolNames

MIN_OUTPUT_TOKENS = 16
"""The smallest value of `max_output_tokens` that the API accepts."""
_CHAT = "openai_chat"
_SHARED_WITH_CHAT = frozenset(
    ["metadata", "moderation", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier"]
)
"""Fields that have the same name and meaning in Chat Completions."""
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_WORDS = msgspec.json.Decoder(list[str] | None)
_TRANSLATED = STATE_FIELDS | {"input"}
"""Members that are not copied as a whole. The items of the input are copied one by one."""


def build_request(request: Request, dialect: Dialect = DEFAULT, cache: ConversationCache | None = None) -> BuiltRequest:
    """Build a request to `/responses`. A checkpoint in the request must be one that the upstream itself issued."""
    names = tool_names(request.tools) if request.tools else NO_TOOL_NAMES
    notes: list[Note] = []
    settings = _settings(request, dialect, names, notes)
    source = usable_source(request, PROTOCOL) if dialect.takes_all else None
    tools = build_tools(request, dialect, names, source, cache) if request.tools else None
    items = ItemsBuilder(request, dialect, names)
    messages = _unknown_messages(request)
    continues = messages is not request.messages
    if request.checkpoint is not None and continues:
        settings["previous_response_id"] = request.checkpoint.state
    if source is None:
        out = _translated(messages, settings, tools, items)
    else:
        out = _copied(messages, settings, tools, items, source)
    notes += () if tools is None else tools.notes
    return BuiltRequest(encode(out), names, tuple(dict.fromkeys((*notes, *items.notes))), continues)


def _unknown_messages(request: Request) -> Sequence[Message]:
    """Return the messages that the request's checkpoint does not cover.

    Return all messages if there is no checkpoint, or no new message after it. The instructions are always included,
    because they apply only to the request that contains them.
    """
    messages = request.messages
    if request.checkpoint is None:
        return messages
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    if end in (0, len(messages)):
        return messages
    return [*filter(is_instructions, messages[:end]), *messages[end:]]


def _translated(messages: Sequence[Message], settings: Json, tools: ToolArray | None, items: ItemsBuilder) -> Json:
    """Return a request built from parsed values only, without the client's JSON."""
    for message in messages:
        items.add(message)
    out: Json = {"model": settings.pop("model")}
    instructions = "\n\n".join(items.instructions)
    if not items.out:  # the API rejects a request without input
        items.add_system(instructions)
    elif instructions:
        out["instructions"] = instructions
    out |= settings
    if tools is not None and tools.is_any:
        out["tools"] = tools.text
    out["input"] = items.out
    return out


def _copied(
    messages: Sequence[Message],
    settings: Json,
    tools: ToolArray | None,
    items: ItemsBuilder,
    source: RequestSource,
) -> Json:
    """Return the client's JSON request with the changed members replaced."""
    sent = members_of(source.fields)
    own = _TRANSLATED
    if {*sent.get("include", ())} == {*settings.get("include", ())}:
        settings.pop("include", None)  # the same, perhaps in another order
    else:
        own |= {"include"}
    out = settings_of(sent, settings, own)
    if tools is None or not tools.is_any:
        out.pop("tools", None)
    elif not tools.is_as_sent:
        out["tools"] = tools.text
    written = Raw(b"[%b]" % b",".join(message_texts(messages, source, items.json)))
    if items.instructions:
        out["instructions"] = "\n\n".join(items.instructions)
    else:
        out.pop("instructions", None)
    is_plain = isinstance(sent.get("input"), str) and _is_unchanged(messages, source)
    out["input"] = sent["input"] if is_plain else written
    return out


def _is_unchanged(messages: Sequence[Message], source: RequestSource) -> bool:
    before = source.parsed.messages
    return len(before) == len(messages) and all(map(is_, before, messages))


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def _settings(request: Request, dialect: Dialect, names: ToolNames, notes: list[Note]) -> Json:
    """Return all members of the request except the instructions, the tools and the input."""
    out: Json = {"model": request.model}
    if request.stream:
        out["stream"] = True
    out["store"] = request.may_store
    _add_sampling(out, request, notes)
    _add_reasoning(out, request, dialect)
    _add_options(out, request, dialect, notes)
    if request.tools:
        add_choice(out, request, names, dialect)
    _add_extra(out, request, notes)
    if request.output is not None:
        out["text"] = {**out.get("text", {}), "format": _format(request.output, dialect, notes)}
    if dialect.encrypted_reasoning:
        out["include"] = [*out.get("include", ()), ENCRYPTED]
    return out


def _add_sampling(out: Json, request: Request, notes: list[Note]) -> None:
    sampling = request.sampling
    if sampling.max_tokens is not None:
        out["max_output_tokens"] = max(sampling.max_tokens, MIN_OUTPUT_TOKENS)
        if sampling.max_tokens < MIN_OUTPUT_TOKENS:
            what = f"the limit of {sampling.max_tokens} tokens was raised to {MIN_OUTPUT_TOKENS}"
            notes.append(Note(kind="limit", message=f"{what}, the least that this upstream accepts"))
    if sampling.temperature is not None:
        out["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        out["top_p"] = sampling.top_p
    if sampling.top_k is not None:
        notes.append(left_out("top_k", "there is no such field in this protocol"))
    if any(sampling.stop):
        notes.append(left_out("stop", "there are no stop sequences in this protocol"))


def _add_reasoning(out: Json, request: Request, dialect: Dialect) -> None:
    own = request.reasoning.meta.get(PROTOCOL, {}).get("reasoning")
    if own is not None:
        out["reasoning"] = decode_any(own)
        return
    is_own = request.protocol == PROTOCOL
    effort = effort_of(request.reasoning, is_own) if dialect.effort else None
    reasoning: Json = {} if effort is None else {"effort": effort}
    is_wanted = request.reasoning.mode in ("budget", "adaptive") or request.reasoning.effort is not None
    if not is_own and is_wanted and dialect.summary != "none":
        reasoning["summary"] = dialect.summary
    if reasoning:
        out["reasoning"] = reasoning


def _add_options(out: Json, request: Request, dialect: Dialect, notes: list[Note]) -> None:
    if request.user is not None and request.protocol in (PROTOCOL, _CHAT):
        out["user"] = request.user
    elif request.user is not None:
        notes.append(left_out("metadata.user_id", "user ids have another meaning for this upstream"))
    if request.cache_key is not None:
        if dialect.cache_key:
            out["prompt_cache_key"] = request.cache_key
        else:
            notes.append(left_out("prompt_cache_key", "not sent unless the upstream's dialect has `cache_key`"))


def _format(output: OutputFormat, dialect: Dialect, notes: list[Note]) -> Json:
    if output.schema is None:
        return {"type": "json_object"}
    if not dialect.json_schema:
        notes.append(left_out("output schema", "this upstream accepts no schema, so JSON of any form is requested"))
        return {"type": "json_object"}
    wanted: Json = {"type": "json_schema", "name": output.name, "schema": Raw(output.schema)}
    if output.strict is not None:
        wanted["strict"] = output.strict
    return wanted


def _add_extra(out: Json, request: Request, notes: list[Note]) -> None:
    """Add each field of `Request.extra` to `out` if this protocol defines it; otherwise add a note."""
    for name, value in request.extra.items():
        if request.protocol == PROTOCOL:
            out[name] = _opened(name, value)
        elif request.protocol == _CHAT and name in _SHARED_WITH_CHAT:
            out[name] = value
        elif request.protocol == _CHAT and name == "verbosity":
            out["text"] = {"verbosity": value}
        else:
            notes.append(left_out(name, "a field of another protocol"))


def _opened(name: str, value: Raw) -> Any:
    """Return the value of a field. `text` and `include` are decoded, because the caller adds values to them."""
    match name:
        case "text":
            return _MEMBERS.decode(value)
        case "include":
            return _WORDS.decode(value)
        case _:
            return value
