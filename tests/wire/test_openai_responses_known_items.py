"""Requests that continue items which the gateway already knows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.each import each
from tieline.model.content import Checkpoint, Text
from tieline.model.errors import BadRequest
from tieline.model.request import Request
from tieline.wire.openai_responses import KnownItems, parse_request
from tieline.wire.shared.conversations import conversation_cache

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts" / "openai_responses"
CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
STATE = Checkpoint(upstream="up", model="m", state="resp_1")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def parse_after(known: Sequence[Any], *new: Any, **fields: Any) -> Request:
    """A request with these new items, which continues known ones that an upstream has stored."""
    body = json.dumps({"model": "m", "input": list(new), **fields}).encode()
    return parse_request(body, conversation_cache(), KnownItems([json.dumps(item).encode() for item in known], STATE))


@each("path", sorted(TRANSCRIPTS.glob("*/request.json")), ids=lambda path: path.parent.name)
def test_known_items_and_new_ones_are_parsed_like_one_input(path: Path) -> None:
    body: dict[str, Raw] = msgspec.json.decode(path.read_bytes(), type=dict[str, Raw])
    if not bytes(body["input"]).startswith(b"["):
        return
    items: list[Raw] = msgspec.json.decode(body["input"], type=list[Raw])
    whole = parse_request(msgspec.json.encode(body))
    assert whole.source is not None
    for known in range(len(items) + 1):
        rest = msgspec.json.encode({**body, "input": items[known:]})
        for cache in (None, conversation_cache()):
            request = parse_request(rest, cache, KnownItems([bytes(item) for item in items[:known]]))
            assert request == whole
            assert request.source is not None
            assert request.source.messages == whole.source.messages


def test_a_state_stands_for_everything_up_to_the_last_answer() -> None:
    known = [user("one"), CALL]
    for new in ([OUTPUT], [OUTPUT, user("two")], [user("two")], [{"role": "developer", "content": "two"}], []):
        assert parse_after(known, *new).checkpoint == STATE
    for new in ([{"role": "assistant", "content": "said"}], [CALL | {"call_id": "c2"}], [{"type": "web_search_call"}]):
        assert parse_after(known, *new, user("two")).checkpoint is None
    assert parse_after(known, user("two"), system="Be brief.").checkpoint is None


def test_an_error_in_a_new_item_counts_the_known_ones() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_after([user("one"), CALL], {"role": "nobody", "content": "two"})
    assert caught.value.param == "input[2].role"


def test_half_of_an_emoji_in_a_known_item_is_accepted() -> None:
    item = b'{"role":"user","content":[{"type":"input_text","text":"half \\ud83d"}]}'
    request = parse_request(b'{"model":"m","input":[]}', None, KnownItems([item]))
    assert request.messages[0].parts == (Text(text="half \ufffd"),)
