"""JSON-RPC on lines: everything that can stand on a line, and everything that can go wrong with an answer."""

import json
import random
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Raw

from tests.each import each
from tieline.wire.framing.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MAX_OPEN,
    METHOD_NOT_FOUND,
    Incoming,
    IncomingRequest,
    JsonRpcPeer,
    Notification,
    Response,
    SkippedInput,
)


def sent(peer: JsonRpcPeer) -> list[Any]:
    return [json.loads(line) for line in peer.outbox().splitlines()]


def plain(items: Iterable[Incoming]) -> list[tuple[Any, ...]]:
    """What came in, as tuples that compare: Raw compares by identity."""
    return [(type(item).__name__, *(bytes(f) if isinstance(f, Raw) else f for f in item)) for item in items]


def asking(count: int = 3, limit: int = 1000) -> JsonRpcPeer:
    """A peer that waits for answers to requests 1, 2, 3 …"""
    peer = JsonRpcPeer(limit=limit)
    for _ in range(count):
        peer.request("ask")
    peer.outbox()
    return peer


@dataclass(frozen=True)
class Line:
    """A line and what it is to somebody who asked requests 1 to 3."""

    line: bytes
    items: tuple[tuple[Any, ...], ...]


ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"a":1}}'
LINES = {
    "an answer": Line(ANSWER.encode(), (("Response", 1, "ask", b'{"a":1}', None),)),
    "CRLF": Line(ANSWER.encode() + b"\r", (("Response", 1, "ask", b'{"a":1}', None),)),
    "spaces": Line(b"  " + ANSWER.encode() + b" \t", (("Response", 1, "ask", b'{"a":1}', None),)),
    "an id as a string": Line(b'{"id":"2","result":null}', (("Response", 2, "ask", b"null", None),)),
    "an id as a float": Line(b'{"id":2.0,"result":[]}', (("Response", 2, "ask", b"[]", None),)),
    "an error": Line(
        b'{"id":1,"error":{"code":-32000,"message":"log in","data":{"a":1}}}',
        (("Response", 1, "ask", b"null", (-32000, "log in", b'{"a":1}')),),
    ),
    "an error that is null": Line(b'{"id":1,"result":1,"error":null}', (("Response", 1, "ask", b"1", None),)),
    "result and error": Line(
        b'{"id":1,"result":1,"error":{"code":5,"message":"no"}}', (("Response", 1, "ask", b"null", (5, "no", b"")),)
    ),
    "neither": Line(b'{"id":3}', (("Response", 3, "ask", b"null", None),)),
    "an answer that repeats the method": Line(
        b'{"id":3,"method":"ask","result":0}', (("Response", 3, "ask", b"0", None),)
    ),
    "an error as text": Line(b'{"id":1,"error":"no"}', (("Response", 1, "ask", b"null", (-32603, "no", b"")),)),
    "an error without words": Line(
        b'{"id":1,"error":{}}', (("Response", 1, "ask", b"null", (-32603, "an error without a message", b"")),)
    ),
    "an error of no form": Line(
        b'{"id":1,"error":7}',
        (("Response", 1, "ask", b"null", (-32603, "an error in an unknown form", b"7")),),
    ),
    "a notification": Line(b'{"method":"tell","params":{"a":1}}', (("Notification", "tell", b'{"a":1}'),)),
    "a notification without params": Line(b'{"method":"tell"}', (("Notification", "tell", b"null"),)),
    "an id that is null": Line(b'{"id":null,"method":"tell"}', (("Notification", "tell", b"null"),)),
    "a request": Line(b'{"id":"x","method":"do","params":[1]}', (("IncomingRequest", 1, "do", b"[1]"),)),
    "a batch": Line(
        b'[{"method":"a"},{"id":5,"method":"b"},{"id":1,"result":2}]',
        (("Notification", "a", b"null"), ("IncomingRequest", 1, "b", b"null"), ("Response", 1, "ask", b"2", None)),
    ),
    "colours before it": Line(b'\x1b[?25h\x1b[0m\x1b]0;title\x07 {"method":"a"}', (("Notification", "a", b"null"),)),
    "a byte order mark": Line(b'\xef\xbb\xbf{"method":"a"}', (("Notification", "a", b"null"),)),
    "half of a pair": Line(b'{"method":"a","params":{"t":"\\ud83d"}}', (("Notification", "a", b'{"t": "\\ud83d"}'),)),
    "not a number": Line(b'{"method":"a","params":[NaN]}', (("Notification", "a", b"[NaN]"),)),
    "not UTF-8": Line(b'{"method":"a","params":"\xff"}', (("Notification", "a", '"\ufffd"'.encode()),)),
    "a batch in a batch": Line(b"[[1]]", (("SkippedInput", "not a JSON-RPC message", "[1]"),)),
    "nothing": Line(b"", ()),
    "blanks": Line(b" \t\r", ()),
}


@each("name", LINES)
def test_a_line_means_what_it_means(name: str) -> None:
    case = LINES[name]
    assert plain(asking().feed(case.line + b"\n")) == list(case.items)


@each(
    ("line", "reason"),
    [
        (b"npm warn something", "not a JSON-RPC message"),
        (b"17", "not a JSON-RPC message"),
        (b'"text"', "not a JSON-RPC message"),
        (b"true", "not a JSON-RPC message"),
        (b"{'single': 1}", "not a JSON-RPC message"),
        (b'{"id":1,"result":', "not a JSON-RPC message"),
        (b"\x00\xff\xfe\x1b[", "not a JSON-RPC message"),
        (b'DEBUG sent {"id":1,"result":2}', "not a JSON-RPC message"),
        (b'{"params":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not a JSON-RPC message"),
        (b"[]", "a list that is not a batch of messages"),
        (b"[INFO] starting", "a list that is not a batch of messages"),
        (b"{}", "an object that is not a JSON-RPC message"),
        (b'{"level":"info"}', "an object that is not a JSON-RPC message"),
        (b'{"method":7}', "a message whose method is not a string"),
        (b'{"id":99,"result":1}', "a response to no open request"),
        (b'{"id":"one","result":1}', "a response to no open request"),
        (b'{"id":1.5,"result":1}', "a response to no open request"),
        (b'{"id":[1],"result":1}', "a response to no open request"),
        (b'{"result":1}', "a response to no open request"),
        (b'{"id":null,"error":{"code":-32700,"message":"Parse error"}}', "a response to no open request"),
    ],
    ids=lambda value: None if isinstance(value, str) else repr(value[:24]),
)
def test_what_is_no_message_is_skipped_and_shown(line: bytes, reason: str) -> None:
    peer = asking(limit=1_000_000)
    (item,) = peer.feed(line + b"\n")
    assert item == SkippedInput(reason, line[:200].decode("utf-8", "replace"))
    assert peer.outbox() == b""
    assert len(peer.pending) == 3


def test_any_cutting_gives_the_same_items() -> None:
    stream = b"".join(case.line + b"\n" for case in LINES.values())
    expected = plain(asking().feed(stream))
    chance = random.Random(4)
    for _ in range(50):
        peer, begin, found = asking(), 0, []
        while begin < len(stream):
            end = begin + chance.choice([1, 2, 7, 60, 500])
            found += peer.feed(stream[begin:end])
            begin = end
        assert plain(found) == expected


def test_many_messages_in_one_read_come_together() -> None:
    assert len(JsonRpcPeer().feed(b'{"method":"a"}\n' * 1000)) == 1000


def test_a_message_that_lacks_only_its_line_end_counts_when_the_stream_ends() -> None:
    peer = asking()
    assert peer.feed(b'{"id":1,"result":2}') == []
    assert plain(peer.close()) == [("Response", 1, "ask", b"2", None)]
    assert peer.close() == []


def test_half_a_line_at_the_end_is_skipped() -> None:
    peer = asking()
    peer.feed(b'{"id":1,"resu')
    assert peer.close() == [SkippedInput("not a JSON-RPC message", '{"id":1,"resu')]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def test_only_the_first_answer_counts() -> None:
    peer = asking()
    first, second = peer.feed(b'{"id":1,"result":1}\n{"id":1,"error":{"code":1,"message":"late"}}\n')
    assert isinstance(first, Response)
    assert isinstance(second, SkippedInput)
    assert peer.pending == {2: "ask", 3: "ask"}


def test_an_answer_nobody_waits_for_is_skipped() -> None:
    peer = asking()
    peer.forget(1)
    (item,) = peer.feed(b'{"id":1,"result":1}\n')
    assert isinstance(item, SkippedInput)


@pytest.mark.parametrize(
    "their_id", [b"0", b"1", b'"1"', b"1.0", b'"\\u0031"', b"123456789012345678901234567890", b'"a b"']
)
def test_an_id_goes_back_as_it_came(their_id: bytes) -> None:
    peer = JsonRpcPeer()
    (item,) = peer.feed(b'{"id":' + their_id + b',"method":"do"}\n')
    assert isinstance(item, IncomingRequest)
    assert peer.result(item.number, {"a": 1})
    assert peer.outbox() == b'{"jsonrpc":"2.0","id":' + their_id + b',"result":{"a":1}}\n'


def test_two_open_requests_of_one_id_are_two_requests() -> None:
    peer = JsonRpcPeer()
    first, second = peer.feed(b'{"id":7,"method":"a"}\n{"id":7,"method":"b"}\n')
    assert isinstance(first, IncomingRequest)
    assert isinstance(second, IncomingRequest)
    assert peer.open == {first.number: "a", second.number: "b"}
    assert peer.result(second.number, "B")
    assert peer.error(first.number, METHOD_NOT_FOUND, "no", {"why": 1})
    assert sent(peer) == [
        {"jsonrpc": "2.0", "id": 7, "result": "B"},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": METHOD_NOT_FOUND, "message": "no", "data": {"why": 1}}},
    ]


def test_a_request_is_answered_once() -> None:
    peer = JsonRpcPeer()
    (item,) = peer.feed(b'{"id":7,"method":"a"}\n')
    assert isinstance(item, IncomingRequest)
    assert peer.result(item.number, None)
    assert not peer.result(item.number, None)
    assert not peer.error(item.number, 1, "no")
    assert sent(peer) == [{"jsonrpc": "2.0", "id": 7, "result": None}]


def test_a_request_whose_method_is_no_string_is_answered() -> None:
    peer = JsonRpcPeer()
    peer.feed(b'{"id":7,"method":{}}\n')
    assert [answer["error"]["code"] for answer in sent(peer)] == [INVALID_REQUEST]


def test_too_many_open_requests_are_refused() -> None:
    peer = JsonRpcPeer()
    items = peer.feed(b'{"id":7,"method":"a"}\n' * (MAX_OPEN + 2))
    assert [type(item) for item in items[-3:]] == [IncomingRequest, SkippedInput, SkippedInput]
    assert [answer["error"]["code"] for answer in sent(peer)] == [INTERNAL_ERROR] * 2


def test_requests_are_numbered_and_notifications_are_not() -> None:
    peer = JsonRpcPeer()
    assert (peer.request("a", {"x": 1}), peer.request("b")) == (1, 2)
    peer.notify("c", [])
    peer.notify("d")
    assert sent(peer) == [
        {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"x": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "b"},
        {"jsonrpc": "2.0", "method": "c", "params": []},
        {"jsonrpc": "2.0", "method": "d"},
    ]
    assert peer.outbox() == b""


def test_every_message_is_one_line() -> None:
    peer = JsonRpcPeer()
    peer.notify("a", {"text": "one\ntwo\r\n\u2028three"})
    assert peer.outbox().count(b"\n") == 1


def test_half_of_a_pair_does_not_stop_a_message() -> None:
    peer = JsonRpcPeer()
    peer.notify("a", {"text": "half \ud83d"})
    assert sent(peer) == [{"jsonrpc": "2.0", "method": "a", "params": {"text": "half \ufffd"}}]


# ── lines over the limit ─────────────────────────────────────────────────────────────────────────

FILL = b"x" * 2000


@pytest.mark.parametrize("step", [1, 100, 10_000])
def test_an_answer_that_is_too_large_fails_only_its_request(step: int) -> None:
    peer = asking()
    stream = b'{"jsonrpc":"2.0","id":2,"result":{"text":"' + FILL + b'"}}\n{"id":1,"result":"fine"}\n'
    found = [item for at in range(0, len(stream), step) for item in peer.feed(stream[at : at + step])]
    failed, fine = found
    assert isinstance(failed, Response)
    assert (failed.id, failed.error and failed.error.code) == (2, INTERNAL_ERROR)
    assert failed.error is not None
    assert "the limit is 1000" in failed.error.message
    assert isinstance(fine, Response)
    assert fine.error is None
    assert peer.pending == {3: "ask"}


@pytest.mark.parametrize(
    ("beginning", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":"r1","method":"write","params":{"content":"', '"r1"'),
        (b'{ "id" : 9 , "params" : { "content" : "', "9"),
        (b'{"id":2,"method":"same number as ours","params":{"content":"', "2"),
        (b'{"method":"tell","params":{"content":"', None),
        (b'{"id":null,"method":"tell","params":{"content":"', None),
        (b'{"result":{"text":"', None),
        (b'{"id":77,"result":{"text":"', None),
        (b"garbage without an end ", None),
        (b'{"content":"', None),
    ],
    ids=repr,
)
def test_anything_else_that_is_too_large_is_skipped_and_answered_if_it_asks(
    beginning: bytes, answered: str | None
) -> None:
    peer = asking()
    (item,) = peer.feed(beginning + FILL + b'"}}\n')
    assert isinstance(item, SkippedInput)
    assert "the limit is 1000" in item.reason
    assert item.beginning.startswith(beginning.decode())
    assert len(peer.pending) == 3
    answers = peer.outbox()
    if answered is None:
        assert answers == b""
    else:
        assert answers.startswith(f'{{"jsonrpc":"2.0","id":{answered},"error":{{"code":{INVALID_REQUEST}'.encode())


def test_a_line_of_the_limit_passes() -> None:
    line = b'{"method":"a","params":"' + b"x" * 974 + b'"}'
    assert len(line) == 1000
    assert plain(asking().feed(line + b"\n")) == [("Notification", "a", line[23:-1])]


def test_a_line_that_never_ends_takes_no_memory() -> None:
    peer = asking(limit=100_000)
    piece = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(500):
            assert peer.feed(piece) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000
    (item,) = peer.close()
    assert isinstance(item, SkippedInput)
    assert str(500 * 65536) in item.reason


def test_large_lines_pass_by_default() -> None:
    """Seen: half a megabyte of commands in one line."""
    text = b"x" * 8_000_000
    line = b'{"method":"a","params":"' + text + b'"}\n'
    peer = JsonRpcPeer()
    found = [item for at in range(0, len(line), 65536) for item in peer.feed(line[at : at + 65536])]
    (item,) = found
    assert isinstance(item, Notification)
    assert len(bytes(item.params)) == len(text) + 2
