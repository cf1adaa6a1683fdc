"""Read tool calls in an answer, and blocks that only this protocol has."""

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, ToolCall
from tieline.wire.anthropic.schema import ABSENT, PROTOCOL, BlockIn, DeltaIn, is_set, text_of
from tieline.wire.shared.json import Malformed, encode, object_text, read
from tieline.wire.shared.spelling import ToolNames, restore_id

UNNAMED = "unknown_tool"

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_WRAPPED = msgspec.json.Decoder(dict[str, str])
_NO_INPUT = ("", "null", '""', "[]")


def call_of(block: BlockIn, tool_names: ToolNames, fallback_id: str) -> ToolCall:
    """Return the call that a tool_use block starts, without its arguments."""
    name = tool_names.to_client(block.name or "") or UNNAMED
    meta = NO_META
    if block.caller is not ABSENT or block.toolset_name is not ABSENT:
        own = {name: text_of(value) for name in ("caller", "toolset_name") if is_set(value := getattr(block, name))}
        meta = {PROTOCOL: own} if own else NO_META
    return ToolCall(
        id=restore_id(block.id or "") or fallback_id,
        name=name,
        freeform=name in tool_names.freeform,
        meta=meta,
    )


def is_repeated_start(block: BlockIn, call: ToolCall) -> bool:
    """Return whether `block` repeats the start of `call`, which was already read."""
    return block.type == "tool_use" and bool(block.id) and restore_id(block.id or "") == call.id


def is_empty_input(raw: Raw) -> bool:
    """Return whether `raw`, the input at the start of a block, is empty. In a stream, the input follows in deltas."""
    return raw is ABSENT or bytes(raw) == b"{}"


def is_object_input(raw: Raw) -> bool:
    """Return whether `raw`, the input of a block, is an object. In a non-streaming answer, it should be one."""
    return bytes(raw).startswith(b"{")


def complete_arguments(held: list[str] | None, start_input: Raw, is_freeform: bool) -> str:
    """Return the complete arguments of a call: the joined deltas in `held` or, if there were none, `start_input`.

    `start_input` is the input at the start of the call's block. For a freeform call, return only the text in the
    arguments.
    """
    text = "".join(held or ()) or _start_arguments(start_input)
    return _unwrapped(text) if is_freeform else text


def complete_block(raw: Raw, held: list[str] | None, compaction: dict[str, str], signature: str) -> str:
    """Return the JSON of a block that only this protocol has, completed with the content of its deltas.

    `raw` is the JSON with which the block started, and `held` contains the deltas of its input. For a compaction block,
    `compaction` contains the members and `signature` the signature from its deltas. Values that no delta contained are
    empty.
    """
    if not held and not compaction:
        return text_of(raw)
    fields = read(_FIELDS, bytes(raw))
    if held:
        fields["input"] = Raw(object_text("".join(held)).encode())
    for name, text in compaction.items():
        fields[name] = Raw(encode(text))
    if compaction and signature:
        fields["signature"] = Raw(encode(signature))
    return encode(fields).decode()


def add_compaction(so_far: dict[str, str], delta: DeltaIn) -> None:
    """Append the texts in a delta to `so_far`, the members of a compaction block collected from earlier deltas."""
    for name in ("content", "encrypted_content"):
        text = getattr(delta, name)
        if text:
            so_far[name] = so_far.get(name, "") + text


def citations_of(array: Raw) -> list[str]:
    """Return the JSON text of each citation in a JSON array."""
    return [text_of(item) for item in read(_LIST, bytes(array))] if is_set(array) else []


def _start_arguments(start_input: Raw) -> str:
    """Return the arguments at the start of a block. Some upstreams send the complete arguments there, not in deltas."""
    text = text_of(start_input)
    if text.startswith('"') and text not in _NO_INPUT:
        return object_text(text)  # a string in place of an object, usually the JSON text of that object
    return "{}" if text in _NO_INPUT else text


def _unwrapped(text: str) -> str:
    """Return the text of a freeform call from its arguments `{"input": text}`; return other arguments unchanged."""
    try:
        return read(_WRAPPED, text.encode()).get("input", text)
    except (Malformed, UnicodeError):
        return text
