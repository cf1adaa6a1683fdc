"""A request in neutral words, as an upstream of the Messages API takes it.

Everything is written in a fixed order with the messages last, so that consecutive requests of a session share their
beginning and prompt caches work. What was written for the request before is remembered and joined with what is new.
"""

from typing import Any, cast

import msgspec
from msgspec import Struct

from tieline.model.content import Message, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.events import Note, left_out
from tieline.model.request import Request
from tieline.wire.anthropic import build_tools, cache_control, structured, thinking
from tieline.wire.anthropic.build_content import BlockWriter, in_block, plain_words
from tieline.wire.anthropic.build_messages import MESSAGES, TOLD_AGAIN, History, TurnWriter
from tieline.wire.anthropic.build_tools import ToolList
from tieline.wire.anthropic.dialect import DEFAULT, Dialect
from tieline.wire.anthropic.fragments import Memory, Piece
from tieline.wire.anthropic.schema import PROTOCOL, Count, TextBlock
from tieline.wire.shared.json import Malformed, encode, read
from tieline.wire.shared.spelling import UNCHANGED, Outgoing

_COUNT = msgspec.json.Decoder(Count)
_UNDERSTOOD = frozenset(["thinking", "reasoning"])
"""Fields of another protocol that were read as a wish for thinking, whether it can be granted or not."""
_COUNTED = ("model", "thinking", "tool_choice")
_NO_SYSTEM = Piece((), b"")
_MARK = b"," + cache_control.MARK
_MEMORY = Memory()
_QUESTION = 2
"""The messages of a question: itself, and perhaps a system prompt."""
_HEADS: dict[tuple[object, ...], tuple[bytes, tuple[Note, ...]]] = {}
"""How the bodies of questions begin, and what is noted about that, by what they ask for: clients vary that little."""
_MAX_HEADS = 256
_MAX_HEAD = 1024


def build_request(request: Request, dialect: Dialect = DEFAULT, memory: Memory = _MEMORY) -> Outgoing:
    """The body for /v1/messages."""
    if 0 < len(request.messages) <= _QUESTION and (outgoing := _question(request, dialect)) is not None:
        return outgoing
    prompt = _prompt(request, dialect, memory)
    return _outgoing(prompt, _settings(request, dialect, prompt))


def build_count(request: Request, dialect: Dialect = DEFAULT, memory: Memory = _MEMORY) -> Outgoing:
    """The body for /v1/messages/count_tokens."""
    prompt = _prompt(request, dialect, memory)
    fields = _settings(request, dialect, prompt)
    return _outgoing(prompt, {name: fields[name] for name in _COUNTED if name in fields})


def read_count(body: bytes) -> int:
    """The answer of /v1/messages/count_tokens."""
    try:
        return read(_COUNT, body).input_tokens
    except Malformed as error:
        message = f"the upstream's token count is unreadable: {error}"
        raise GatewayError("upstream", message) from error


class _Prompt(Struct):
    """What is said after the settings, and what is known of it."""

    conversation: tuple[Message, ...]
    tools: ToolList
    system: Piece
    history: History
    notes: list[Note] = []
    tool_choice: dict[str, Any] | None = None
    sets_marks: bool = False
    """Whether the cache marks are ours to set."""


def _outgoing(prompt: _Prompt, fields: dict[str, Any]) -> Outgoing:
    """The body: one join of what was remembered and what is new."""
    turns = [turn.text for turn in prompt.history.turns]
    if prompt.sets_marks:
        for at in cache_control.ends(prompt.history.roles):
            turns[at : at + 1] = cache_control.marked(prompt.history.turns[at])
    turns[-1] += b"]}"
    if prompt.history.beginning:
        turns.insert(0, prompt.history.beginning)
    else:
        turns[0] = MESSAGES + turns[0]
    texts = [encode(fields)[:-1]]
    for piece in (prompt.tools, prompt.system):
        if piece.text:
            texts += cache_control.always_marked(piece) if prompt.sets_marks else (piece.text,)
    notes = tuple(dict.fromkeys(prompt.notes)) if prompt.notes else ()
    return Outgoing(b",".join(texts + turns), prompt.tools.spelled, notes)


# ── A question: one message in plain words, perhaps with a system prompt, and nothing else ───────


def _question(request: Request, dialect: Dialect) -> Outgoing | None:
    """The same body in one go; None if the request is more than a question."""
    *system, asked = request.messages
    words = plain_words(asked)
    if not words or asked.role != "user" or not _asks_little(request):
        return None
    mark = _MARK if dialect.cache == "auto" and request.protocol != PROTOCOL else b""
    instructions = b""
    if system:
        told = plain_words(system[0])
        if not told or system[0].role != "system":
            return None
        instructions = b',"system":' + in_block(told, mark)
    head, notes = _head(request, dialect)
    body = b'%b%b,"messages":[{"role":"user","content":%b}]}' % (head, instructions, in_block(words, mark))
    return Outgoing(body, UNCHANGED, notes)


def _asks_little(request: Request) -> bool:
    """Whether the settings of a request are its model and how to draw the answer."""
    return not (
        request.tools
        or request.output is not None
        or request.extra
        or request.user is not None
        or request.cache_key is not None
        or thinking.is_asked_for(request.reasoning)
    )


def _head(request: Request, dialect: Dialect) -> tuple[bytes, tuple[Note, ...]]:
    """The settings of a request that asks little, without their last brace, and what is to be noted about them.

    They are known by their JSON text: numbers that are equal may be spelled differently.
    """
    key = request.model, encode(request.sampling), request.stream, dialect
    head = _HEADS.get(key)
    if head is None:
        prompt = _Prompt((), build_tools.NONE, _NO_SYSTEM, History([], []))
        text = encode(_settings(request, dialect, prompt))[:-1]
        head = text, tuple(dict.fromkeys(prompt.notes))
        if len(_HEADS) >= _MAX_HEADS:
            _HEADS.clear()
        if len(text) <= _MAX_HEAD:
            _HEADS[key] = head
    return head


# ── Any other prompt ─────────────────────────────────────────────────────────────────────────────


def _prompt(request: Request, dialect: Dialect, memory: Memory) -> _Prompt:
    """Everything but the settings. Whole stages are passed over where the request has nothing for them."""
    messages = request.messages
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    conversation = messages[leading:] if leading else messages
    offered, choice = build_tools.NONE, None
    if request.tools:
        offered = build_tools.offered(request, dialect, memory)
        choice = build_tools.chosen(request.tool_choice, offered.spelled.names)
    elif len(conversation) > 1 and _has_calls(conversation):
        offered, choice = build_tools.UNAVAILABLE, {"type": "none"}
    system = _NO_SYSTEM
    if leading:
        is_told_again = len(conversation) >= TOLD_AGAIN
        system = _system(messages[:leading], memory) if is_told_again else _write_system(messages[:leading])
    writer = TurnWriter(offered.spelled.names, dialect, memory)
    history = writer.history(conversation)
    prompt = _Prompt(conversation, offered, system, history, [*history.notes, *offered.notes], choice)
    if offered.marks or system.marks or history.marks:
        _keep_the_last(prompt, writer, request)
    else:
        prompt.sets_marks = dialect.cache == "auto" and request.protocol != PROTOCOL
    if request.output is not None:
        prompt.system = _with_words(prompt.system, structured.instructions(request.output, dialect, prompt.notes))
    return prompt


def _keep_the_last(prompt: _Prompt, writer: TurnWriter, request: Request) -> None:
    """Take away the marks before the last ones: the API would refuse the request."""
    offered, system, history = prompt.tools, prompt.system, prompt.history
    most = cache_control.MOST - ("cache_control" in request.extra and request.protocol == PROTOCOL)
    surplus = offered.marks + system.marks + history.marks - most
    if surplus > 0 and offered.marks:
        prompt.tools = build_tools.write(request, writer.dialect, writer.memory, unmarked=surplus)
    surplus -= offered.marks
    if surplus > 0 and system.marks:
        prompt.system = _write_system(cast(tuple[Message, ...], system.source), unmarked=surplus)
    surplus -= system.marks
    if surplus > 0:
        writer.without_marks(history, surplus)


def _system(messages: tuple[Message, ...], memory: Memory) -> Piece:
    key = ("system", *map(id, messages))
    piece = memory.get(key)
    if piece is None:
        piece = _write_system(messages)
        memory.keep(key, piece)
    return piece


def _write_system(messages: tuple[Message, ...], unmarked: int = 0) -> Piece:
    """The system prompt, without the first of its cache marks."""
    if len(messages) == 1 and (words := plain_words(messages[0])):
        return Piece(messages, b'"system":' + in_block(words), 2)
    writer = BlockWriter(UNCHANGED.names, extensions=True)
    blocks: list[TextBlock] = []
    for message in messages:
        blocks += writer.system(message)
    for block in writer.marked[:unmarked]:
        block.cache_control = None
    text = b'"system":' + encode(blocks) if blocks else b""
    return Piece(messages, text, mark_at=2, marks=len(writer.marked))


def _with_words(system: Piece, words: list[TextBlock]) -> Piece:
    """The system prompt with something added."""
    if not words:
        return system
    before = system.text[:-1] + b"," if system.text else b'"system":['
    return Piece(None, before + encode(words)[1:], mark_at=2)


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def _settings(request: Request, dialect: Dialect, prompt: _Prompt) -> dict[str, Any]:
    """What is said before the prompt."""
    sampling, notes = request.sampling, prompt.notes
    max_tokens = dialect.max_tokens if sampling.max_tokens is None else sampling.max_tokens
    fields: dict[str, Any] = {"model": request.model, "max_tokens": max_tokens}
    if request.stream:
        fields["stream"] = True
    plan = thinking.NO_PLAN
    if thinking.is_asked_for(request.reasoning):
        past = thinking.Past(prompt.conversation, prompt.history.forgotten)
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
    if request.cache_key is not None:
        notes.append(left_out("prompt_cache_key", "there is no such field in this protocol"))
    if prompt.tool_choice is not None:
        fields["tool_choice"] = prompt.tool_choice
    return fields


def _extra(request: Request, notes: list[Note]) -> dict[str, Any]:
    """Fields of this protocol as they came; those of another are named and left out."""
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
        notes.append(left_out("stop", "sequences of nothing but white space are not taken"))
    if len(kept) > dialect.stop_limit:
        notes.append(left_out("stop", f"the upstream takes {dialect.stop_limit} stop sequences"))
    return kept[: dialect.stop_limit]


def _has_calls(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                return True
    return False
