"""What a client must be able to rely on, whatever the upstream did; and whole replies of upstreams."""

import json
from typing import Any

from tests.catalogue.crossing import Crossing, Seen
from tests.shapes import check_stream


def assert_arguments(seen: Seen, crossing: Crossing, *texts: str) -> None:
    """The arguments of all calls are byte for byte these texts, in this order."""
    if crossing.client == "anthropic" and not crossing.stream:
        # Here arguments are no text but a part of the body: they have to stand in it as they came.
        assert [json.loads(text) for text in seen.arguments] == [json.loads(text) for text in texts]
        assert all(b'"input":' + text.encode() in seen.raw for text in texts)
    else:
        assert seen.arguments == list(texts)


def assert_in_order(seen: Seen, crossing: Crossing) -> None:
    """A stream a strict client can follow: one role, one open block at a time, numbers without gaps, one ending."""
    if not crossing.stream:
        return
    if crossing.client == "anthropic":
        _assert_blocks(seen.frames)
    elif crossing.client == "openai_chat":
        _assert_chunks(seen.frames)
    else:
        check_stream(crossing.client, seen.raw, typed=False)


def _assert_blocks(frames: list[dict[str, Any]]) -> None:
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] in ("message_start", "error")
    assert kinds.count("message_start") <= 1
    assert kinds.count("message_delta") == kinds.count("message_stop")
    assert kinds[-1] in ("message_stop", "error")
    assert (kinds.count("message_stop"), kinds.count("error")) in ((1, 0), (0, 1))
    is_open, following, is_call = None, 0, False
    for frame in frames:
        match frame["type"]:
            case "content_block_start":
                assert is_open is None, "a block begins inside another"
                assert frame["index"] == following
                is_open, following = following, following + 1
                is_call = frame["content_block"]["type"] == "tool_use"
            case "content_block_delta":
                assert frame["index"] == is_open, "a delta outside its block"
            case "content_block_stop":
                assert frame["index"] == is_open
                is_open = None
            case "message_delta":
                assert is_open is None, "a block is left open"
            case "error":
                assert is_open is None or is_call, "a block is left open"
            case _:
                pass


def _assert_chunks(frames: list[dict[str, Any]]) -> None:
    chunks = [frame for frame in frames if "error" not in frame]
    choices = [choice for frame in chunks for choice in frame["choices"]]
    assert [number for number, choice in enumerate(choices) if "role" in choice["delta"]] in ([0], [])
    assert all(choice["index"] == 0 for choice in choices)
    assert all(choice["delta"].get("tool_calls") != [] for choice in choices)
    endings = [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]
    assert len(endings) == (len(chunks) == len(frames))
    pieces = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    heads = [call for call in pieces if "id" in call]
    assert [head["index"] for head in heads] == list(range(len(heads)))
    known: set[int] = set()
    for piece in pieces:
        first = piece["index"] not in known
        known.add(piece["index"])
        assert ("id" in piece, "type" in piece, "name" in piece.get("function", {})) == (first, first, first)
    assert [piece["index"] for piece in pieces] == sorted(piece["index"] for piece in pieces)


def finish_of(crossing: Crossing, reason: str) -> str:
    """The word for an ending, given in the words of Messages, in the client's protocol."""
    words = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
    return reason if crossing.client == "anthropic" else words[reason]


# ── whole replies of upstreams ──────────────────────────────────────────────────────────────────


def chat_reply(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> bytes:
    """The body of a Chat Completions answer that does not stream."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return json.dumps(
        {
            "id": "chatcmpl-up",
            "object": "chat.completion",
            "created": 7,
            "model": "up",
            "choices": [choice],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            **fields,
        }
    ).encode()


def chat_call(call_id: str, name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    """A call in such an answer, or the whole of one in a delta."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def message_reply(*content: dict[str, Any], stop: str | None = "end_turn", **fields: Any) -> bytes:
    """The body of a Messages answer that does not stream, as compact as the API sends it."""
    message = {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }
    return json.dumps(message, separators=(",", ":")).encode()


def tool_use(call_id: str, name: str, given: Any) -> dict[str, Any]:
    """A call in such an answer."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def said(text: str) -> dict[str, Any]:
    """A text block in such an answer."""
    return {"type": "text", "text": text}


def frames_of(seen: Seen, kind: str) -> list[dict[str, Any]]:
    """The frames of a Messages stream that have this type."""
    return [frame for frame in seen.frames if frame["type"] == kind]
