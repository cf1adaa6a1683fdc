"""Server-sent events (catalogue 55 to 76): the same answer for the client, however an upstream's bytes are spelled."""

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.catalogue.crossing import (
    CROSSINGS,
    PROTOCOLS,
    STREAMS,
    Crossing,
    Protocol,
    Seen,
    block,
    call_delta,
    chat_stream,
    chunk,
    cross,
    message_stream,
    shown,
    sse,
    text_block,
    tool_block,
)
from tests.each import each
from tests.grammar import check
from tieline.model.events import Event
from tieline.wire import anthropic, openai_chat

EACH_CROSSING = each("crossing", CROSSINGS, ids=str)
EACH_STREAM = each("crossing", STREAMS, ids=str)
EACH_UPSTREAM = each("upstream", PROTOCOLS)

TEXT = "Zürich 日本 😀 a\u2028b\u2029c\x85d\x0be"
ARGUMENTS = '{"path":"日本/😀\u2028.py","n":1}'


def answer(upstream: Protocol, text: str = TEXT, arguments: tuple[str, ...] = (ARGUMENTS,)) -> bytes:
    """Text and a call, with every character as it is and not escaped."""
    if upstream == "anthropic":
        stream = message_stream(*text_block(0, text), *tool_block(1, "toolu_1", "read", *arguments), stop="tool_use")
    else:
        start = call_delta(0, "", id="toolu_1", type="function", name="read")
        pieces = [call_delta(0, piece) for piece in arguments]
        stream = chat_stream({"role": "assistant"}, {"content": text}, start, *pieces, finish="tool_calls")
    events = [line.partition("data: ") for line in stream.decode().split("\n")]
    lines = [f"{head}{sign}{unescaped(data)}" for head, sign, data in events]
    return "\n".join(lines).encode()


def unescaped(data: str) -> str:
    return json.dumps(json.loads(data), ensure_ascii=False) if data.startswith("{") else data


def read(upstream: Protocol, reads: Iterable[bytes]) -> list[Event]:
    """The events of a stream that comes in these reads."""
    reader_of = anthropic.ResponseReader if upstream == "anthropic" else openai_chat.ResponseReader
    reader = reader_of(fallback_id="fallback", model="m")
    events = [event for data in reads for event in reader.feed(data)] + reader.close()
    check(events)
    return events


def complete(seen: Seen) -> None:
    """The client has all of `answer`."""
    assert seen.error is None
    assert seen.text == TEXT
    assert seen.names == ["read"]
    assert [json.loads(arguments) for arguments in seen.arguments] == [json.loads(ARGUMENTS)]
    assert seen.finish in ("tool_calls", "tool_use")


def cuttings(stream: bytes) -> Iterable[list[bytes]]:
    """Byte by byte, all at once, and seeded random cuttings."""
    yield [stream[place : place + 1] for place in range(len(stream))]
    yield [stream]
    chance = random.Random(len(stream))
    for _ in range(30):
        places = sorted(chance.randrange(len(stream)) for _ in range(chance.randint(1, 30)))
        yield [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


# ── 55 to 60: bytes become events ────────────────────────────────────────────────────────────────


@EACH_UPSTREAM
@EACH_CROSSING
def test_055_a_character_split_over_reads_stays_whole(upstream: Protocol, crossing: Crossing) -> None:
    stream = answer(upstream)
    for place in (at for at, byte in enumerate(stream) if byte >= 0x80):
        complete(shown(read(upstream, [stream[:place], stream[place:]]), crossing))


@EACH_UPSTREAM
@EACH_CROSSING
def test_056_only_line_feeds_and_carriage_returns_end_a_line(upstream: Protocol, crossing: Crossing) -> None:
    assert "\u2028" in answer(upstream).decode()
    complete(cross(answer(upstream), upstream, crossing))


@EACH_UPSTREAM
@EACH_CROSSING
@each("end", [b"\n", b"\r\n", b"\r"])
def test_057_every_line_end_of_the_standard_counts(upstream: Protocol, crossing: Crossing, end: bytes) -> None:
    stream = answer(upstream).replace(b"\n", end)
    complete(cross(stream, upstream, crossing))
    complete(shown(read(upstream, [stream[at : at + 1] for at in range(len(stream))]), crossing))


@EACH_UPSTREAM
@EACH_CROSSING
def test_057_line_ends_may_be_mixed(upstream: Protocol, crossing: Crossing) -> None:
    ends = (b"\n", b"\r\n", b"\r")
    events = answer(upstream).removesuffix(b"\n\n").split(b"\n\n")
    stream = b"".join((event + b"\n\n").replace(b"\n", ends[at % 3]) for at, event in enumerate(events))
    complete(cross(stream, upstream, crossing))


@EACH_UPSTREAM
@EACH_CROSSING
def test_058_the_space_after_the_colon_may_be_missing(upstream: Protocol, crossing: Crossing) -> None:
    stream = answer(upstream).replace(b"data: ", b"data:").replace(b"event: ", b"event:")
    complete(cross(stream, upstream, crossing))


ODDITIES: dict[str, Callable[[bytes], bytes]] = {
    "comments": lambda stream: b": hello\n\n" + stream.replace(b"data: ", b": OPENROUTER PROCESSING\ndata: "),
    "blank comments": lambda stream: stream.replace(b"\n\n", b"\n\n:\n\n:\n"),
    "ids and retries": lambda stream: stream.replace(b"data: ", b"id: 7\nretry: 100\nid\ndata: "),
    "unknown fields": lambda stream: stream.replace(b"data: ", b"vendor: x\nnothing\ndata: "),
    "data over several lines": lambda stream: stream.replace(b', "', b',\ndata: "'),
    "more blank lines": lambda stream: stream.replace(b"\n\n", b"\n\n\n\n\n"),
    "a byte order mark": lambda stream: b"\xef\xbb\xbf" + stream,
    "no names": lambda stream: b"\n".join(line for line in stream.split(b"\n") if not line.startswith(b"event: ")),
    "no blank line at the end": lambda stream: stream.rstrip(b"\n"),
    "events without data": lambda stream: stream.replace(b"data: ", b"event: nothing\n\ndata: ", 1),
}


@EACH_UPSTREAM
@EACH_CROSSING
@each("oddity", ODDITIES)
def test_059_what_else_the_standard_allows_changes_nothing(upstream: Protocol, crossing: Crossing, oddity: str) -> None:
    stream = ODDITIES[oddity](answer(upstream))
    assert stream != answer(upstream) or (oddity, upstream) == ("no names", "openai_chat")
    complete(cross(stream, upstream, crossing))


@EACH_UPSTREAM
@EACH_CROSSING
def test_060_any_cutting_into_reads_gives_the_same_answer(upstream: Protocol, crossing: Crossing) -> None:
    whole = cross(answer(upstream), upstream, crossing)
    complete(whole)
    for reads in cuttings(answer(upstream)):
        seen = shown(read(upstream, reads), crossing)
        complete(seen)
        assert seen.raw == whole.raw


# ── 61, 62, 64 ───────────────────────────────────────────────────────────────────────────────────

ERRORS: dict[Protocol, dict[str, Any]] = {
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}},
    "openai_chat": {"error": {"type": "overloaded_error", "message": "too busy", "param": None, "code": None}},
}


def begun(upstream: Protocol) -> bytes:
    """A stream in the middle of its text."""
    if upstream == "anthropic":
        return message_stream(*text_block(0, "Hel", "lo")).partition(b"event: content_block_stop")[0]
    return sse(chunk({"role": "assistant"}), chunk({"content": "Hel"}), chunk({"content": "lo"}))


def failed_in_form(seen: Seen, crossing: Crossing) -> dict[str, Any]:
    """The error of an answer that claims no success, in the client's own form."""
    assert seen.error is not None
    assert seen.finish is None
    if not crossing.stream:
        return seen.error
    *_, last = seen.frames
    if crossing.client == "openai_responses":
        assert (last["type"], last["response"]["error"]) == ("response.failed", seen.error)
        assert seen.error.keys() == {"type", "code", "message"}
        return seen.error
    assert last.get("error") == seen.error
    if crossing.client == "anthropic":
        assert last["type"] == "error"
        assert b"message_stop" not in seen.raw
        blocks = [frame for frame in seen.frames if frame["type"] in ("content_block_start", "content_block_stop")]
        if blocks and blocks[-1]["type"] == "content_block_start":
            # A client runs a call whose block ends, whatever follows.
            assert blocks.pop()["content_block"]["type"] == "tool_use"
        assert [frame["type"] for frame in blocks[1::2]] == ["content_block_stop"] * (len(blocks) // 2)
    else:
        assert set(seen.error) == {"message", "type", "param", "code"}
        assert b"[DONE]" not in seen.raw
    assert seen.raw.endswith(b"}\n\n")
    return seen.error


@EACH_UPSTREAM
@EACH_CROSSING
@each("indent", [None, 2])
@each("at", ["instead of a stream", "inside"])
def test_061_an_error_without_any_framing_is_an_error(
    upstream: Protocol, crossing: Crossing, indent: int | None, at: str
) -> None:
    before = begun(upstream) if at == "inside" else b""
    seen = cross(before + json.dumps(ERRORS[upstream], indent=indent).encode(), upstream, crossing)
    assert "too busy" in failed_in_form(seen, crossing)["message"]


@EACH_UPSTREAM
@EACH_CROSSING
def test_062_a_very_large_event_passes(upstream: Protocol, crossing: Crossing) -> None:
    large = "0123456789" * 500_000
    stream = answer(upstream, text=large, arguments=(json.dumps({"path": large}),))
    reads = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]
    seen = shown(read(upstream, reads), crossing)
    assert seen.text == large
    assert json.loads(seen.arguments[0]) == {"path": large}


@EACH_CROSSING
def test_062_a_very_large_signature_passes(crossing: Crossing) -> None:
    large = "c2ln" * 1_000_000
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": large},
    )
    seen = cross(message_stream(*thought, *text_block(1, "Hi")), "anthropic", crossing)
    assert (seen.text, seen.thinking) == ("Hi", "hm")
    assert seen.signature == (large if crossing.client == "anthropic" else "")


SPLITS = {
    "half an emoji": ('{"a":"\ud83d', '\ude00"}'),
    "half an escaped emoji": ('{"a":"\\ud83d', '\\ude00"}'),
    "an escape at the end": ('{"a":"x\\', "n\\", '\\"}'),
    "inside an escape": ('{"a":"\\u00', 'e9"}'),
    "inside a word": ('{"a":tr', "ue}"),
    "inside a number": ('{"a":1', "2.", "5e", "1}"),
    "inside a key": ('{"', 'a":1}'),
    "white space": ("", "{", " ", '"a":', "\n", "1", "}", ""),
}


@EACH_UPSTREAM
@EACH_CROSSING
@each("split", SPLITS)
def test_064_fragments_are_opaque_and_only_their_sum_is_json(
    upstream: Protocol, crossing: Crossing, split: str
) -> None:
    pieces = SPLITS[split]
    if upstream == "anthropic":
        stream = message_stream(*tool_block(0, "toolu_1", "read", *pieces), stop="tool_use")
    else:
        start = call_delta(0, "", id="call_1", type="function", name="read")
        stream = chat_stream(start, *(call_delta(0, piece) for piece in pieces), finish="tool_calls")
    seen = cross(stream, upstream, crossing)
    joined = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16")
    assert json.loads(seen.arguments[0]) == json.loads(joined)
    if crossing.stream:
        assert seen.arguments == [joined]


@EACH_UPSTREAM
@EACH_CROSSING
def test_064_half_a_character_at_the_end_of_a_fragment_of_text_is_joined(
    upstream: Protocol, crossing: Crossing
) -> None:
    pieces = ("a\ud83d", "\ude00b")
    if upstream == "anthropic":
        stream = message_stream(*text_block(0, *pieces))
    else:
        stream = chat_stream(*({"content": piece} for piece in pieces))
    assert cross(stream, upstream, crossing).text == "a😀b"


# ── 66: signs of life ────────────────────────────────────────────────────────────────────────────


@EACH_CROSSING
def test_066_a_ping_of_the_upstream_says_nothing_to_the_client(crossing: Crossing) -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    stream = answer("anthropic")
    lively = ping + stream.replace(b"\n\n", b"\n\n" + ping)
    seen = cross(lively, "anthropic", crossing)
    complete(seen)
    assert seen.raw == cross(stream, "anthropic", crossing).raw


@EACH_CROSSING
@each("sign", [b": keep-alive\n", b":\n\n", b"data:\n\n", b"data: \n\n"])
def test_066_a_keep_alive_of_the_upstream_says_nothing_to_the_client(crossing: Crossing, sign: bytes) -> None:
    stream = answer("openai_chat")
    seen = cross(sign + stream.replace(b"\n\n", b"\n\n" + sign * 2), "openai_chat", crossing)
    complete(seen)
    assert seen.raw == cross(stream, "openai_chat", crossing).raw


def test_066_our_own_signs_of_life_are_of_the_form_that_clients_bear() -> None:
    assert openai_chat.KEEP_ALIVE.startswith(b":")
    assert openai_chat.KEEP_ALIVE.endswith(b"\n")
    assert b"\n\n" not in openai_chat.KEEP_ALIVE
    assert anthropic.KEEP_ALIVE == b'event: ping\ndata: {"type":"ping"}\n\n'


# ── 67 to 71: usage ──────────────────────────────────────────────────────────────────────────────

COUNTS = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
}


def counts(seen: Seen, crossing: Crossing) -> tuple[int, int, int]:
    """Prompt, of that from the cache, and output."""
    usage = seen.usage
    if crossing.client != "anthropic":
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        return usage["prompt_tokens"], cached, usage["completion_tokens"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached + usage["cache_creation_input_tokens"], cached, usage["output_tokens"]


@EACH_CROSSING
@each("choices", [[], None])
def test_067_a_chunk_with_nothing_but_usage_does_no_harm(crossing: Crossing, choices: list[Any] | None) -> None:
    last = chunk(choices=choices, usage=COUNTS)
    seen = cross(sse(chunk({"content": "Hi"}), chunk(finish="stop"), last, "[DONE]"), "openai_chat", crossing)
    assert (seen.text, seen.error) == ("Hi", None)
    assert seen.finish in ("stop", "end_turn")
    assert counts(seen, crossing) == (100, 60, 20)
    if crossing.stream and crossing.client == "anthropic":
        assert seen.frames[-1] == {"type": "message_stop"}


@EACH_CROSSING
def test_067_a_first_chunk_without_choices_does_no_harm(crossing: Crossing) -> None:
    """Seen: Azure's prompt filter comes first."""
    first = {"id": "", "model": "", "object": "", "created": 0, "choices": [], "prompt_filter_results": [{"a": 1}]}
    seen = cross(sse(first, chunk({"content": "Hi"}), chunk(finish="stop"), "[DONE]"), "openai_chat", crossing)
    assert (seen.text, seen.error) == ("Hi", None)
    if crossing.stream and crossing.client == "openai_chat":
        assert {frame["id"] for frame in seen.frames} == {"chatcmpl-up"}


@EACH_CROSSING
def test_067_usage_in_every_chunk_is_told_once(crossing: Crossing) -> None:
    growing = [{**COUNTS, "completion_tokens": tokens, "total_tokens": 100 + tokens} for tokens in (1, 2, 20)]
    frames = [chunk({"content": "Hi"}, usage=growing[0]), chunk({"content": "!"}, usage=growing[1])]
    seen = cross(sse(*frames, chunk(finish="stop", usage=growing[2]), "[DONE]"), "openai_chat", crossing)
    assert counts(seen, crossing) == (100, 60, 20)
    if crossing.stream and crossing.client == "openai_chat":
        assert len([frame for frame in seen.frames if frame["usage"]]) == 1


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_068_a_client_that_did_not_ask_gets_no_usage(upstream: Protocol) -> None:
    writer = openai_chat.ResponseWriter(openai_chat.Options(usage=False))
    raw = b"".join(writer.write(event) for event in read(upstream, [answer(upstream)]))
    assert b"usage" not in raw
    assert b'"choices":[]' not in raw


def with_usage(first: dict[str, int], *later: dict[str, int]) -> bytes:
    """A Messages stream with usage at its start and in each message_delta."""
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": first}}
    deltas = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
        for usage in later
    ]
    return sse(start, *text_block(0, "Hi"), *deltas, {"type": "message_stop"}, named=True)


FULL = {"input_tokens": 40, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 0}


@EACH_CROSSING
@each(
    "later",
    [
        [{"output_tokens": 20}],
        [{**FULL, "output_tokens": 20}],
        [{"output_tokens": 5}, {"output_tokens": 20}],
        [{**FULL, "output_tokens": 5}, {**FULL, "output_tokens": 20}, {**FULL, "output_tokens": 20}],
        [{"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 20}],
    ],
)
def test_069_counts_that_repeat_are_not_added_up(crossing: Crossing, later: list[dict[str, int]]) -> None:
    seen = cross(with_usage({**FULL, "output_tokens": 1}, *later), "anthropic", crossing)
    assert counts(seen, crossing) == (100, 60, 20)


@EACH_CROSSING
def test_070_counts_that_come_only_at_the_end_are_told_there(crossing: Crossing) -> None:
    seen = cross(
        with_usage({"input_tokens": 0, "output_tokens": 0}, {**FULL, "output_tokens": 20}), "anthropic", crossing
    )
    assert counts(seen, crossing) == (100, 60, 20)


@pytest.mark.parametrize("arguments", ["buffered", "incremental"])
def test_070_the_last_event_of_messages_has_the_counts_of_the_prompt(arguments: Any) -> None:
    crossing = Crossing("anthropic", True, arguments)
    last = chunk(choices=[], usage=COUNTS)
    seen = cross(sse(chunk({"content": "Hi"}), chunk(finish="stop"), last, "[DONE]"), "openai_chat", crossing)
    usage = next(frame["usage"] for frame in seen.frames if frame["type"] == "message_delta")
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (40, 60, 20)


@EACH_UPSTREAM
@EACH_CROSSING
@each("whole", [True, False], ids=["whole", "streamed"])
def test_071_the_prompt_includes_the_cache_in_one_protocol_and_not_in_the_other(
    upstream: Protocol, crossing: Crossing, whole: bool
) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 5}
    if upstream == "anthropic" and whole:
        body = {"id": "m", "type": "message", "content": [], "stop_reason": "end_turn", "usage": usage}
        data = json.dumps(body).encode()
    elif upstream == "anthropic":
        data = with_usage(usage, {"output_tokens": 5})
    else:
        details = {"cached_tokens": 70, "cache_write_tokens": 20}
        theirs = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "prompt_tokens_details": details}
        message = {"role": "assistant", "content": "Hi"}
        reply = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": theirs}
        frames = (chunk({"content": "Hi"}), chunk(finish="stop", usage=theirs), "[DONE]")
        data = json.dumps(reply).encode() if whole else sse(*frames)
    seen = cross(data, upstream, crossing, whole=whole)
    assert counts(seen, crossing) == (100, 70, 5)
    if crossing.client == "anthropic":
        assert (seen.usage["input_tokens"], seen.usage["cache_creation_input_tokens"]) == (10, 20)


# ── 73 to 76: errors and ends ────────────────────────────────────────────────────────────────────


@EACH_UPSTREAM
@EACH_CROSSING
def test_073_an_error_inside_a_stream_reaches_the_client(upstream: Protocol, crossing: Crossing) -> None:
    stream = begun(upstream) + sse(ERRORS[upstream], named=upstream == "anthropic")
    seen = cross(stream, upstream, crossing)
    assert "too busy" in failed_in_form(seen, crossing)["message"]
    assert seen.text == ("Hello" if crossing.stream else "")


@EACH_UPSTREAM
@EACH_CROSSING
def test_073_nothing_after_an_error_turns_it_into_a_success(upstream: Protocol, crossing: Crossing) -> None:
    error = sse(ERRORS[upstream], named=upstream == "anthropic")
    seen = cross(begun(upstream) + error + answer(upstream), upstream, crossing)
    assert "too busy" in failed_in_form(seen, crossing)["message"]
    assert seen.calls == []


@EACH_UPSTREAM
@EACH_CROSSING
def test_073_a_stream_that_breaks_off_is_an_error_wherever_it_breaks(upstream: Protocol, crossing: Crossing) -> None:
    stream = answer(upstream)
    told = stream.index(b'"stop_reason": "tool_use"' if upstream == "anthropic" else b'"finish_reason": "tool_calls"')
    for place in range(0, told, 7):
        failed_in_form(cross(stream[:place], upstream, crossing), crossing)


@EACH_UPSTREAM
@EACH_STREAM
def test_074_an_error_is_not_glued_to_an_unfinished_event(upstream: Protocol, crossing: Crossing) -> None:
    cut = answer(upstream).index(b"Z\xc3") + 3
    seen = cross(begun(upstream) + answer(upstream)[cut - 40 : cut], upstream, crossing)
    failed_in_form(seen, crossing)
    *events, nothing = seen.raw.split(b"\n\n")
    assert nothing == b""
    assert all(json.loads(event.partition(b"data: ")[2]) for event in events)


@EACH_CROSSING
@each(
    "fields",
    [
        {"error": {"message": "too busy", "code": 503}, "choices": []},
        {"error": {"message": "too busy"}, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"error": "too busy", "choices": None},
        {"error": {"message": "too busy"}, "choices": [], "usage": COUNTS},
        {
            "choices": [
                {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"message": "too busy"}}
            ]
        },
    ],
)
@each("whole", [True, False], ids=["whole", "streamed"])
def test_075_an_error_in_a_successful_chunk_is_an_error(
    crossing: Crossing, fields: dict[str, Any], whole: bool
) -> None:
    frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    data = json.dumps(frame).encode() if whole else sse(frame, "[DONE]")
    seen = cross(data, "openai_chat", crossing, whole=whole)
    assert "too busy" in failed_in_form(seen, crossing)["message"]


@EACH_CROSSING
@each("error", [{"type": "api_error", "message": "too busy"}, "too busy"])
@each("whole", [True, False], ids=["whole", "streamed"])
def test_075_an_error_that_looks_like_an_empty_message_is_an_error(
    crossing: Crossing, error: object, whole: bool
) -> None:
    body = {"type": "error", "content": [], "error": error}
    data = json.dumps(body).encode() if whole else sse(body, named=True)
    assert "too busy" in failed_in_form(cross(data, "anthropic", crossing, whole=whole), crossing)["message"]


@EACH_UPSTREAM
@EACH_CROSSING
@each(
    "trap",
    [
        "message_stop",
        '{"type":"message_stop"}',
        "data: [DONE]",
        "[DONE]",
        'event: error\ndata: {"error":1}\n\n',
        '"finish_reason":"stop"',
        '"stop_reason":"end_turn"',
    ],
)
def test_076_the_name_of_an_end_inside_text_or_arguments_is_no_end(
    upstream: Protocol, crossing: Crossing, trap: str
) -> None:
    arguments = json.dumps({"path": trap})
    pieces = (arguments[:12], arguments[12:])
    seen = cross(answer(upstream, text=f"{trap} and more", arguments=pieces), upstream, crossing)
    assert seen.error is None
    assert seen.text == f"{trap} and more"
    assert [json.loads(arguments) for arguments in seen.arguments] == [{"path": trap}]
    assert seen.finish in ("tool_calls", "tool_use")
