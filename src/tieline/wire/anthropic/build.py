"""Build a request for a Messages upstream.

The order of members is fixed, and the messages come last, so that consecutive requests in a conversation begin with the
same bytes and the upstream's prompt cache works. In long conversations, the tools, the system prompt and the turns (see
`build_messages`) are fragments from the conversation cache. If the client uses this protocol, a fragment whose meaning
the gateway did not change is the client's own JSON (see `model.source`).

The API caches the prompt up to each cache mark, and reuses a cached prompt only up to a mark. A mark from the client is
a member of the JSON of its block. The gateway's own marks move with every request, so they are inserted into the
finished JSON text.
"""

from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from tieline.model.content import Message, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import Note, left_out
from tieline.model.request import Reasoning, Request, RequestSource
from tieline.wire.anthropic import build_tools, structured, thinking
from tieline.wire.anthropic.build_content import BlockWriter
from tieline.wire.anthropic.build_messages import MIN_CACHED_MESSAGES, History, TurnWriter
from tieline.wire.anthropic.build_tools import ToolList
from tieline.wire.anthropic.dialect import DEFAULT, Dialect
from tieline.wire.anthropic.fragments import Fragment, cached_fragment
from tieline.wire.anthropic.schema import PROTOCOL, InputTokenCount, RequestFields, TextBlock
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import Malformed, encode, read
from tieline.wire.shared.sources import usable_source
from tieline.wire.shared.spelling import NO_TOOL_NAMES, BuiltRequest

_COUNT = msgspec.json.Decoder(InputTokenCount)
_UNDERSTOOD = frozenset(["thinking", "reasoning"])
"""Fields of other protocols that need no note, because they were already parsed as `Request.reasoning`."""
_COUNTED = ("model", "thinking", "tool_choice")
_SYSTEM = b'"system":'
_NO_SYSTEM = Fragment((), b"")
_NO_REASONING = Reasoning()
MAX_MARKS = 4
"""Maximum number of cache marks that the API accepts."""
_MARK = b',"cache_control":{"type":"ephemeral"}'


def build_request(request: Request, dialect: Dialect = DEFAULT, cache: ConversationCache | None = None) -> BuiltRequest:
    """Build the request body for /v1/messages."""
    source = usable_source(request, PROTOCOL) if request.protocol == PROTOCOL and dialect.takes_all else None
    prompt = _prompt(request, dialect, source, cache)
    body = _joined(prompt, _settings(request, dialect, prompt))
    return BuiltRequest(body, prompt.tools.names, tuple(dict.fromkeys(prompt.notes)))


def build_count(request: Request, dialect: Dialect = DEFAULT, cache: ConversationCache | None = None) -> BuiltRequest:
    """Build the request body for /v1/messages/count_tokens."""
    prompt = _prompt(request, dialect, None, cache)
    fields = _settings(request, dialect, prompt)
    body = _joined(prompt, {name: fields[name] for name in _COUNTED if name in fields})
    return BuiltRequest(body, prompt.tools.names, tuple(dict.fromkeys(prompt.notes)))


def read_count(body: bytes) -> int:
    """Return the token count in a response from /v1/messages/count_tokens. Raise GatewayError if it is invalid."""
    try:
        return read(_COUNT, body).input_tokens
    except Malformed as error:
        message = f"the upstream's token count cannot be parsed: {error}"
        raise GatewayError("upstream", message) from error


class _Prompt(Struct):
    """The tools, system prompt and conversation of a request, and notes about changes and omissions."""

    conversation: tuple[Message, ...]
    tools: ToolList
    system: Fragment
    history: History
    writer: TurnWriter
    notes: list[Note] = []
    tool_choice: dict[str, Any] | None = None
    sets_marks: bool = False
    """Whether the gateway sets cache marks itself."""


def _joined(prompt: _Prompt, fields: dict[str, Any]) -> bytes:
    """Build the body of a request from its fragments: `fields` (the settings) come first, the messages last."""
    history, is_marked = prompt.history, prompt.sets_marks
    turns = history.texts
    if is_marked:
        for at in history.turns_to_mark():
            turns[at] = _marked(history.turns[at])
    before = [_marked(part) if is_marked else part.text for part in (prompt.tools, prompt.system) if part.text]
    turns[0] = b'"messages":[' + turns[0]
    turns[-1] += b"]}"
    return b",".join([encode(fields)[:-1], *before, *turns])


def _marked(fragment: Fragment) -> bytes:
    """Return the text of a fragment with a cache mark inserted into the last block that is allowed to have one."""
    if not fragment.mark_at:
        return fragment.text
    text, at = fragment.text, -fragment.mark_at
    return b"".join((text[:at], _MARK, text[at:]))


def _prompt(
    request: Request, dialect: Dialect, source: RequestSource | None, cache: ConversationCache | None
) -> _Prompt:
    messages = request.messages
    leading = 0
    for message in messages:
        if message.role != "system":
            break
        leading += 1
    conversation = messages[leading:]
    history_cache = cache if len(conversation) >= MIN_CACHED_MESSAGES else None
    offered, choice = build_tools.NO_TOOLS, None
    if request.tools:
        offered = build_tools.build_tools(request, dialect, source, cache)
        choice = build_tools.build_choice(request.tool_choice, offered.names)
    elif _has_calls(conversation):
        offered, choice = build_tools.UNAVAILABLE, {"type": "none"}
    system = _NO_SYSTEM
    if leading:
        prefix = messages[:leading]
        if history_cache is None:
            system = _write_system(prefix, source)
        else:
            write = partial(_write_system, prefix, source)
            system = cached_fragment(history_cache, "system", prefix, source is None, write)
    writer = TurnWriter(offered.names, dialect, history_cache)
    if source is not None:
        writer.texts = dict(zip(map(id, source.parsed.messages), source.messages, strict=True))
    history = writer.history(conversation)
    prompt = _Prompt(conversation, offered, system, history, writer, [*history.notes, *offered.notes], choice)
    if offered.marks or system.marks or history.marks:
        _limit_marks(prompt, request)
    else:
        prompt.sets_marks = dialect.cache == "auto" and request.protocol != PROTOCOL
    if request.output is not None:
        prompt.system = _with_blocks(prompt.system, structured.instructions(request.output, dialect, prompt.notes))
    return prompt


def _limit_marks(prompt: _Prompt, request: Request) -> None:
    """Remove all but the last MAX_MARKS cache marks, because the API rejects more."""
    offered, system, history, writer = prompt.tools, prompt.system, prompt.history, prompt.writer
    most = MAX_MARKS - ("cache_control" in request.extra and request.protocol == PROTOCOL)
    surplus = offered.marks + system.marks + history.marks - most
    if surplus > 0 and offered.marks:
        prompt.tools = build_tools.write(request, writer.dialect, unmarked=surplus)
    surplus -= offered.marks
    if surplus > 0 and system.marks:
        prompt.system = _write_system(system.source, None, unmarked=surplus)
    surplus -= system.marks
    if surplus > 0:
        writer.without_marks(history, surplus)


def _write_system(messages: tuple[Message, ...], source: RequestSource | None, unmarked: int = 0) -> Fragment:
    """Build the system prompt from `messages`, and remove its first `unmarked` cache marks.

    If the messages were parsed from `source` and are unchanged, the text is the client's own JSON.
    """
    writer = BlockWriter(NO_TOOL_NAMES, extensions=True)
    blocks: list[TextBlock] = []
    for message in messages:
        blocks += writer.system(message)
    for block in writer.marked[:unmarked]:
        block.cache_control = None
    sent = None if source is None else _sent_system(messages, source)
    text = _SYSTEM + (sent or encode(blocks)) if blocks else b""
    return Fragment(messages, text, mark_at=2, marks=len(writer.marked))


def _sent_system(messages: tuple[Message, ...], source: RequestSource) -> bytes | None:
    """Return the client's JSON for the system prompt, or None if `messages` is not exactly what was parsed from it."""
    fields: RequestFields = source.fields
    parsed = source.parsed.messages
    is_all = len(messages) == len(parsed) - len(fields.messages) == 1
    return bytes(fields.system) if is_all and messages[0] is parsed[0] else None


def _with_blocks(system: Fragment, blocks: list[TextBlock]) -> Fragment:
    """Return the system prompt with these blocks appended."""
    if not blocks:
        return system
    before = system.text[:-1] + b"," if system.text else _SYSTEM + b"["
    return Fragment((), before + encode(blocks)[1:], mark_at=2)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def _settings(request: Request, dialect: Dialect, prompt: _Prompt) -> dict[str, Any]:
    """Return all members of the request except the tools, the system prompt and the messages."""
    sampling, notes = request.sampling, prompt.notes
    max_tokens = dialect.max_tokens if sampling.max_tokens is None else sampling.max_tokens
    fields: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
    if request.stream:
        fields["stream"] = True
    settings = thinking.NO_THINKING
    if request.reasoning != _NO_REASONING:
        past = thinking.Past(prompt.conversation, prompt.history.stripped)
        settings = thinking.settings(request, dialect, max_tokens, past, notes)
    if not (sampling.temperature is None and sampling.top_p is None and sampling.top_k is None):
        thinking.add_sampling(fields, sampling, settings.on, notes)
    if sampling.stop and (stop := _stop(sampling.stop, dialect, notes)):
        fields["stop_sequences"] = stop
    if settings.config is not None:
        fields["thinking"] = settings.config
    if request.output is not None or settings.effort is not None or request.reasoning.meta:
        fields |= structured.output_config(request, dialect, settings.effort, notes)
    if request.extra or request.user is not None:
        fields |= _extra(request, notes)
    if request.cache_key is not None:
        notes.append(left_out("prompt_cache_key", "there is no such field in this protocol"))
    if prompt.tool_choice is not None:
        fields["tool_choice"] = prompt.tool_choice
    return fields


def _extra(request: Request, notes: list[Note]) -> dict[str, Any]:
    """Return the fields that are passed on unchanged. Fields of another protocol are left out, with a note for each."""
    if request.protocol == PROTOCOL:
        extra: dict[str, Any] = dict(request.extra)
    else:
        extra = {}
        if request.extra:
            notes += [
                left_out(name, "a field of another protocol") for name in request.extra if name not in _UNDERSTOOD
            ]
    if request.user is not None and "metadata" not in extra:
        extra["metadata"] = {"user_id": request.user}
    return extra


def _stop(stop: tuple[str, ...], dialect: Dialect, notes: list[Note]) -> list[str]:
    kept = [sequence for sequence in stop if sequence.strip()]
    if len(kept) < len(stop):
        notes.append(left_out("stop", "the upstream rejects stop sequences of white space"))
    if len(kept) > dialect.stop_limit:
        notes.append(left_out("stop", f"the upstream accepts at most {dialect.stop_limit} stop sequences"))
    return kept[: dialect.stop_limit]


def _has_calls(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                return True
    return False
