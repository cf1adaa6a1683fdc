"""What every codec owes: the same tests over all protocols, all transcripts and all common cases.

A transcript is a folder of `transcripts/<protocol>/<case>`: `request.json` with `request.neutral.json`, `response.sse`
with `events.jsonl`, or one of the two pairs. `pytest --rewrite` writes the neutral halves and the files of
`transcripts/across` anew.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from tests.cases import COMMON_CASES, COMMON_LEGS, FAILED_LEGS, FAILURES, READ, STATUSES, says
from tests.codecs import CODECS, Codec, deltas_are_separate, joined, read_stream, write_stream
from tests.conftest import Golden
from tests.each import each
from tests.grammar import check
from tests.shapes import check_reply, check_stream
from tests.wire.losses import LEG_LOSSES, REPLY_LOSSES, REQUEST_LOSSES
from tieline.model.assemble import fold, unfold
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.errors import STATUS, GatewayError
from tieline.model.events import ErrorKind, Event, Failed, Finished
from tieline.model.request import Request, Sampling

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts"

EACH_CODEC = each("codec", CODECS.values(), ids=str)


def transcripts(file: str) -> list[Any]:
    """Every transcript that has this file, with the codec of its protocol."""
    found = sorted(path for name in CODECS for path in (TRANSCRIPTS / name).glob(f"*/{file}"))
    return [
        pytest.param(CODECS[path.parent.parent.name], path.parent, id=f"{path.parent.parent.name}-{path.parent.name}")
        for path in found
    ]


STREAMS = each(("codec", "case"), transcripts("response.sse"))


def events_of(codec: Codec, case: Path) -> list[Event]:
    return read_stream(codec.reader(), [(case / "response.sse").read_bytes()])


# ── Transcripts: reads, requests, any cuts, grammar ──────────────────────────────────────────────


@STREAMS
def test_a_recorded_stream_is_read_as_these_events(codec: Codec, case: Path, golden: Golden) -> None:
    lines = [msgspec.json.encode(event) for event in events_of(codec, case)]
    golden(case / "events.jsonl", b"\n".join(lines) + b"\n")


@each(("codec", "case"), transcripts("request.json"))
def test_a_recorded_request_is_parsed_as_this_request(codec: Codec, case: Path, golden: Golden) -> None:
    request = codec.parse((case / "request.json").read_bytes())
    golden(case / "request.neutral.json", neutral_json(request))


@each(("codec", "case"), transcripts("request.json"))
def test_a_recorded_request_survives_building_and_parsing(codec: Codec, case: Path) -> None:
    """Ours: what a client said to us and we say upstream in the same protocol must be understood the same way."""
    request = codec.parse((case / "request.json").read_bytes())
    again = codec.parse(codec.build(request).body)
    assert codec.parse(codec.build(again).body) == again


@STREAMS
def test_any_cutting_of_a_stream_gives_the_same_events(codec: Codec, case: Path) -> None:
    stream = (case / "response.sse").read_bytes()
    expected = joined(events_of(codec, case))
    for cut in cuttings(stream):
        assert joined(read_stream(codec.reader(), cut)) == expected


@STREAMS
def test_a_stream_keeps_the_grammar_wherever_it_breaks_off(codec: Codec, case: Path) -> None:
    stream = (case / "response.sse").read_bytes()
    for end in {*range(0, len(stream), max(1, len(stream) // 200)), len(stream)}:
        events = read_stream(codec.reader(), [stream[:end]])
        check(events)


@STREAMS
def test_after_the_ending_nothing_counts(codec: Codec, case: Path) -> None:
    stream = (case / "response.sse").read_bytes()
    reader = codec.reader()
    reader.feed(stream)
    reader.close()
    assert reader.ended
    assert reader.feed(stream) == []
    assert reader.close() == []


def cuttings(stream: bytes) -> Iterator[list[bytes]]:
    """Byte by byte, and 50 seeded random cuttings."""
    yield [stream[i : i + 1] for i in range(len(stream))]
    chance = random.Random(len(stream))
    for _ in range(50):
        places = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.randint(1, 20)))
        yield [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


def neutral_json(request: Request) -> bytes:
    """A request for people to read: schemas and unknown fields as JSON, not as text of it."""
    plain = msgspec.to_builtins(replace(request, source=None), builtin_types=(bytes, msgspec.Raw), enc_hook=_opened)
    return json.dumps(_open(plain), indent=1, ensure_ascii=False).encode() + b"\n"


def _opened(value: object) -> object:
    raise TypeError(f"{value!r} has no place in a request")


def _open(value: Any) -> Any:
    match value:
        case bytes() | msgspec.Raw():
            return json.loads(bytes(value))
        case dict():
            return {name: _open(item) for name, item in value.items()}
        case list() | tuple():
            return [_open(item) for item in value]
        case _:
            return value


# ── Pairs: reading what we wrote gives back what we had ──────────────────────────────────────────


@EACH_CODEC
@each("name", COMMON_CASES)
def test_parsing_a_built_request_gives_it_back(codec: Codec, name: str) -> None:
    request = replace(COMMON_CASES[name], protocol=codec.name)
    loss = REQUEST_LOSSES.get((codec.name, name))
    expected = request if loss is None else loss.expected(request)
    got = codec.parse(codec.build_fully(request).body)
    assert got == expected
    assert loss is None or expected != request, "this is no loss (any more)"


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_reading_a_written_stream_gives_the_leg_back(codec: Codec, name: str) -> None:
    events = COMMON_LEGS[name]
    loss = LEG_LOSSES.get((codec.name, name))
    expected = joined(events) if loss is None else loss.expected(joined(events))
    got = read_stream(codec.reader(), [write_stream(codec.writer(), events)])
    check(got)
    assert joined(got) == expected
    assert loss is None or expected != joined(events), "this is no loss (any more)"


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_reading_a_rendered_reply_gives_the_leg_back(codec: Codec, name: str) -> None:
    whole = unfold(fold(COMMON_LEGS[name]))
    loss = REPLY_LOSSES.get((codec.name, name))
    expected = whole if loss is None else loss.expected(whole)
    got = codec.read_reply(codec.render(fold(whole)))
    check(got)
    assert joined(got) == expected
    assert loss is None or expected != whole, "this is no loss (any more)"


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_a_stream_and_a_whole_reply_say_the_same(codec: Codec, name: str) -> None:
    """Up to what only a whole reply has no place for: half an object."""
    streamed = read_stream(codec.reader(), [write_stream(codec.writer(), COMMON_LEGS[name])])
    whole = codec.read_reply(codec.render(fold(COMMON_LEGS[name])))
    case = (codec.name, name)
    loss = None if case in LEG_LOSSES else REPLY_LOSSES.get(case)
    assert joined(whole) == (joined(streamed) if loss is None else loss.expected(joined(streamed)))


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_001_buffered_and_incremental_arguments_join_to_the_same(codec: Codec, name: str) -> None:
    buffered = read_stream(codec.reader(), [write_stream(codec.buffered(), COMMON_LEGS[name])])
    incremental = read_stream(codec.reader(), [write_stream(codec.writer(), COMMON_LEGS[name])])
    assert joined(buffered) == joined(incremental)


@EACH_CODEC
def test_incremental_delivery_passes_every_delta_on_as_it_comes(codec: Codec) -> None:
    writer, reader = codec.writer(), codec.reader()
    for name in ("text", "one call"):
        writer, reader = codec.writer(), codec.reader()
        events = [event for sent in COMMON_LEGS[name] for event in reader.feed(writer.write(sent))]
        assert deltas_are_separate(events)


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_a_writer_gives_whole_events_only(codec: Codec, name: str) -> None:
    writer = codec.writer()
    for event in COMMON_LEGS[name]:
        written = writer.write(event)
        assert not written or written.endswith(b"\n\n")


# ── Across: every transcript through every writer ────────────────────────────────────────────────


@each("to", CODECS.values(), ids=str)
@STREAMS
def test_a_stream_of_one_protocol_becomes_this_stream_of_another(
    codec: Codec, case: Path, to: Codec, golden: Golden
) -> None:
    written = write_stream(to.buffered(), events_of(codec, case))
    golden(TRANSCRIPTS / "across" / f"{codec.name}-{case.name}.{to.name}.sse", written)


@each("to", CODECS.values(), ids=str)
@STREAMS
def test_what_is_written_across_can_be_read_and_has_the_types_of_the_official_clients(
    codec: Codec, case: Path, to: Codec
) -> None:
    events = events_of(codec, case)
    for writer in (to.writer(), to.buffered()):
        written = write_stream(writer, events)
        check_stream(to.name, written)
        again = read_stream(to.reader(), [written])
        check(again)
        assert type(again[-1]) is type(events[-1])
    if isinstance(events[-1], Finished):
        check_reply(to.name, to.render(fold(events)))


# ── The types of the official clients ────────────────────────────────────────────────────────────


@EACH_CODEC
@each("name", [*COMMON_LEGS, *FAILED_LEGS])
def test_every_event_has_the_type_of_the_official_client(codec: Codec, name: str) -> None:
    events = COMMON_LEGS.get(name) or FAILED_LEGS[name]
    for writer in (codec.writer(), codec.buffered()):
        check_stream(codec.name, write_stream(writer, events))


@EACH_CODEC
@each("name", COMMON_LEGS)
def test_every_reply_has_the_type_of_the_official_client(codec: Codec, name: str) -> None:
    check_reply(codec.name, codec.render(fold(COMMON_LEGS[name])))


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────

ERROR_TYPES: Mapping[ErrorKind, Mapping[str, str]] = {
    "bad_request": {
        "anthropic": "invalid_request_error",
        "openai_chat": "invalid_request_error",
        "openai_responses": "invalid_request_error",
    },
    "unauthorized": {
        "anthropic": "authentication_error",
        "openai_chat": "authentication_error",
        "openai_responses": "authentication_error",
    },
    "billing": {
        "anthropic": "billing_error",
        "openai_chat": "insufficient_quota",
        "openai_responses": "insufficient_quota",
    },
    "forbidden": {
        "anthropic": "permission_error",
        "openai_chat": "permission_error",
        "openai_responses": "permission_error",
    },
    "not_found": {
        "anthropic": "not_found_error",
        "openai_chat": "not_found_error",
        "openai_responses": "not_found_error",
    },
    "too_large": {
        "anthropic": "request_too_large",
        "openai_chat": "request_too_large",
        "openai_responses": "request_too_large",
    },
    "rate_limited": {
        "anthropic": "rate_limit_error",
        "openai_chat": "rate_limit_error",
        "openai_responses": "rate_limit_error",
    },
    "cancelled": {
        "anthropic": "api_error",
        "openai_chat": "request_cancelled",
        "openai_responses": "request_cancelled",
    },
    "internal": {"anthropic": "api_error", "openai_chat": "server_error", "openai_responses": "server_error"},
    "upstream": {"anthropic": "api_error", "openai_chat": "upstream_error", "openai_responses": "upstream_error"},
    "overloaded": {
        "anthropic": "overloaded_error",
        "openai_chat": "overloaded_error",
        "openai_responses": "overloaded_error",
    },
    "timeout": {"anthropic": "timeout_error", "openai_chat": "timeout_error", "openai_responses": "timeout_error"},
}
"""The types by which the clients of each protocol know an error."""
OUR_OWN = ("internal", "cancelled")
"""Kinds that are about this gateway: to whoever reads them they are an upstream's failure like any other."""


def test_every_kind_of_error_has_its_status() -> None:
    assert STATUS == STATUSES
    assert set(get_args(ErrorKind)) == set(STATUSES) == set(ERROR_TYPES)
    assert {kind: GatewayError(kind, "what happened").status for kind in STATUSES} == STATUSES


@EACH_CODEC
@each("kind", STATUSES)
def test_every_error_is_rendered_and_read_back(codec: Codec, kind: ErrorKind) -> None:
    body = codec.render_error(GatewayError(kind, "what happened", param="messages[3]"))
    value = json.loads(body)
    assert "what happened" in value["error"]["message"]
    assert value["error"]["type"] == ERROR_TYPES[kind][codec.name]
    if codec.name == "anthropic":
        assert value["type"] == "error"
    else:
        assert set(value["error"]) >= {"message", "type", "param", "code"}
        assert value["error"]["param"] == "messages[3]"
    failed = codec.read_error(STATUSES[kind], body)
    assert failed.status == STATUSES[kind]
    assert "what happened" in failed.message
    if kind not in OUR_OWN:
        assert failed.kind == kind


@EACH_CODEC
@each("name", FAILED_LEGS)
def test_a_failed_leg_is_never_read_as_a_success(codec: Codec, name: str) -> None:
    events = FAILED_LEGS[name]
    for writer in (codec.writer(), codec.buffered()):
        got = read_stream(codec.reader(), [write_stream(writer, events)])
        check(got)
        ending, sent = got[-1], events[-1]
        assert isinstance(ending, Failed)
        assert isinstance(sent, Failed)
        assert sent.message in ending.message


@EACH_CODEC
@each("kind", FAILURES)
def test_the_kind_of_a_failure_survives_a_stream(codec: Codec, kind: ErrorKind) -> None:
    got = read_stream(codec.reader(), [write_stream(codec.writer(), FAILED_LEGS[f"{kind} after the start"])])
    ending = got[-1]
    assert isinstance(ending, Failed)
    assert ending.status >= 400
    if kind not in OUR_OWN:
        # Clients of Messages know by this type alone that a retry may help.
        assert ending.kind == ("overloaded" if (codec.name, kind) == ("anthropic", "upstream") else kind)


@EACH_CODEC
@each("body", [b"", b"<html><body>502 Bad Gateway</body></html>", b"{", b"[]", b"null", b'"x"', b"\xff"])
def test_an_error_that_is_no_json_is_read_too(codec: Codec, body: bytes) -> None:
    failed = codec.read_error(502, body)
    assert (failed.kind, failed.status) == ("upstream", 502)
    assert failed.message
    assert "<" not in failed.message


@EACH_CODEC
@each("body", [b"", b"<html>", b"{", b"[]", b"null", b"{}", b'{"choices":[],"content":3}', b"\xff"])
def test_a_reply_that_is_none_is_a_failure(codec: Codec, body: bytes) -> None:
    events = codec.read_reply(body)
    check(events)
    assert isinstance(events[-1], Failed)


@EACH_CODEC
@each(
    "stream",
    [
        b"",
        b"data: {\n\n",
        b"event: x\ndata: []\n\n",
        b'data: "x"\n\n',
        b"<html></html>",
        b"data: \xff\n\n",
        b"data:\n\n",
    ],
)
def test_a_stream_that_is_none_is_a_failure(codec: Codec, stream: bytes) -> None:
    for reads in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        events = read_stream(codec.reader(), reads)
        check(events)
        assert isinstance(events[-1], Failed)


# ── Stable prefix ────────────────────────────────────────────────────────────────────────────────


def growing() -> list[Request]:
    """The requests of one conversation with calls, each with the history of the one before."""
    history = [says("system", "Be brief."), says("user", "Read both.")]
    requests = []
    for turn in range(4):
        settings = Sampling(max_tokens=1024)
        requests.append(Request(model="m", messages=tuple(history), tools=(READ,), sampling=settings))
        calls = [ToolCall(id=f"c.{turn}:{n}", name="read", arguments=f'{{"path": "{n}.py"}}') for n in range(2)]
        results = [ToolResult(call_id=call.id, content=(Text(text="1"),), is_error=turn == 1) for call in calls]
        history += [says("assistant", "I look.", *calls), says("user", *results)]
        requests.append(Request(model="m", messages=tuple(history), tools=(READ,), sampling=settings))
        history += [says("assistant", "Done."), says("user", f"Again {turn}.")]
    return requests


@EACH_CODEC
@each("spoken", CODECS)
def test_121_a_growing_conversation_keeps_its_serialized_prefix(codec: Codec, spoken: str) -> None:
    bodies = [json.loads(codec.build(replace(request, protocol=spoken)).body) for request in growing()]
    spelled = [[_spelled(message) for message in body.get("messages") or body["input"]] for body in bodies]
    for before, after in pairwise(spelled):
        assert after[: len(before)] == before
    for part in ("system", "instructions", "tools"):
        assert len({_spelled(body.get(part)) for body in bodies}) == 1


@EACH_CODEC
@each("name", COMMON_CASES)
def test_121_the_same_request_is_always_spelled_the_same(codec: Codec, name: str) -> None:
    request = replace(COMMON_CASES[name], protocol=codec.name)
    assert codec.build(request).body == codec.build(request).body


def _spelled(value: object) -> str:
    """The JSON text without cache marks: they may move, and no cache takes them as a part of the prompt."""
    return json.dumps(_without_marks(value))


def _without_marks(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_marks(item) for name, item in value.items() if name != "cache_control"}
        case list():
            return [_without_marks(item) for item in value]
        case _:
            return value


def test_every_loss_is_of_a_case_that_exists() -> None:
    def names(table: Iterable[tuple[str, str]]) -> set[str]:
        return {name for _, name in table}

    assert names(REQUEST_LOSSES) <= set(COMMON_CASES)
    assert names(LEG_LOSSES) | names(REPLY_LOSSES) <= set(COMMON_LEGS)
