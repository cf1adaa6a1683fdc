"""Known failures 120 and 121: cache marks, and bytes that stay the same so that caches work."""

import itertools
import json
import re
from typing import Any

import pytest

from tests.catalogue.asking import (
    PAIRS,
    Dialect,
    Json,
    Sent,
    ask,
    ask_anything,
    asking,
    assistant,
    calls,
    results,
    tool,
    user,
)
from tests.catalogue.crossing import PROTOCOLS, Protocol
from tests.each import each
from tieline.wire import anthropic, openai_chat

every_pair = each(("client", "upstream"), PAIRS)
every_client = pytest.mark.parametrize("client", PROTOCOLS)

A, C = PROTOCOLS
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def marks(sent: Sent) -> list[str]:
    """Where the marks stand, in the order of the prompt."""
    found = [f"tool {tool['name']}" for tool in sent.body.get("tools", ()) if "cache_control" in tool]
    found += [f"system {block['text']}" for block in sent.body.get("system", ()) if "cache_control" in block]
    for at, message in enumerate(sent.messages):
        for place, block in enumerate(message["content"]):
            if "cache_control" in block:
                found.append(f"{at}.{place} {block['type']}")
    return found


# ── 120: marks ───────────────────────────────────────────────────────────────────────────────────


@every_client
def test_120_the_marks_of_a_client_stay_where_they_are_with_their_time(client: Protocol) -> None:
    said = asking(
        client,
        [{"role": "system", "content": [text("Be kind.", cache_control=HOUR)]}] if client == C else [],
        [{"role": "user", "content": [text("long", cache_control=MARK), text("short")]}],
        tools=[tool(client, "read", cache_control=HOUR), tool(client, "write")],
        **({"system": [text("Be kind.", cache_control=HOUR)]} if client == A else {}),
    )
    sent = ask(said, client, A)
    assert marks(sent) == ["tool read", "system Be kind.", "0.0 text"]
    assert sent.body["tools"][0]["cache_control"] == HOUR
    assert sent.body["system"][0]["cache_control"] == HOUR
    assert sent.messages[0]["content"][0]["cache_control"] == MARK


def test_120_marks_on_calls_results_and_pictures_are_kept() -> None:
    turns = [*calls(A, ("c1", "read", {})), *results(A, ("c1", "one"))]
    for turn in turns:
        turn["content"][0]["cache_control"] = HOUR
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}, "cache_control": MARK}
    said = asking(A, [{"role": "user", "content": [picture]}], turns, tools=[tool(A, "read")])
    assert marks(ask(said, A, A)) == ["0.0 image", "1.0 tool_use", "2.0 tool_result"]


@every_client
def test_120_four_marks_are_the_most(client: Protocol) -> None:
    blocks = [text(f"block {number}", cache_control=MARK) for number in range(6)]
    sent = ask(asking(client, [{"role": "user", "content": blocks}]), client, A)
    assert marks(sent) == ["0.2 text", "0.3 text", "0.4 text", "0.5 text"]


def test_120_a_mark_for_the_whole_request_counts_too() -> None:
    blocks = [text(f"block {number}", cache_control=MARK) for number in range(4)]
    sent = ask(asking(A, [{"role": "user", "content": blocks}], cache_control=HOUR), A, A)
    assert sent.body["cache_control"] == HOUR
    assert len(marks(sent)) == 3


def conversation(client: Protocol) -> list[list[Json]]:
    return [
        [{"role": "system", "content": "Be kind."}] if client == C else [],
        user("hi"),
        calls(client, ("c1", "read", {})),
        results(client, ("c1", "one")),
    ]


def test_120_marks_are_made_for_clients_that_cannot_make_any() -> None:
    said = asking(C, *conversation(C), tools=[tool(C, "read"), tool(C, "write")])
    sent = ask(said, C, A)
    assert marks(sent) == ["tool write", "system Be kind.", "0.0 text", "2.0 tool_result"]
    assert ask(asking(C, user("hi")), C, A).messages[0]["content"] == [text("hi", cache_control=MARK)]


def test_120_no_marks_are_made_when_the_client_makes_its_own_or_could_have() -> None:
    own = asking(C, [{"role": "user", "content": [text("hi", cache_control=MARK)]}], tools=[tool(C, "read")])
    assert marks(ask(own, C, A)) == ["0.0 text"]
    assert marks(ask(asking(A, *conversation(A), tools=[tool(A, "read")]), A, A)) == []


def test_120_no_marks_are_made_where_the_upstream_is_set_so() -> None:
    said = asking(C, *conversation(C), tools=[tool(C, "read")])
    assert b"cache_control" not in ask(said, C, A, anthropic.Dialect(cache="off")).raw


def test_120_deferred_tools_and_thoughts_are_never_marked() -> None:
    tools = [tool(A, "read", cache_control=MARK), tool(A, "later", defer_loading=True, cache_control=MARK)]
    assert marks(ask(asking(A, user("hi"), tools=tools), A, A)) == ["tool read"]
    thought = {"type": "thinking", "thinking": "hm", "signature": "s1g"}
    turn: Json = {"role": "assistant", "content": [thought]}
    said = asking(C, user("hi"), [turn], user("and?"), [turn], user("well?"))
    marked = marks(ask(said, C, A))
    assert marked
    assert all("thinking" not in place for place in marked)


@every_client
def test_120_marks_go_to_other_upstreams_only_where_they_are_known(client: Protocol) -> None:
    said = asking(client, [{"role": "user", "content": [text("long", cache_control=HOUR), text("short")]}])
    assert b"cache_control" not in ask(said, client, C).raw
    sent = ask_anything(said, client, C, openai_chat.Dialect(cache_marks=True))
    assert sent.messages[0]["content"] == [text("long", cache_control=HOUR), text("short")]


def test_120_the_key_of_a_cache_goes_where_it_is_known() -> None:
    said = asking(C, user("hi"), prompt_cache_key="session-1")
    assert ask(said, C, C, openai_chat.Dialect(cache_key=True)).body["prompt_cache_key"] == "session-1"
    assert b"session-1" not in ask(said, C, A).raw


# ── 121: stable bytes ────────────────────────────────────────────────────────────────────────────

ODD_ARGUMENTS = '{"z": 1,  "a": {"y": 2, "b": [3,1,2]}, "ä": "\\u00e9", "n": 1.0}'
ODD_SCHEMA = {
    "type": "object",
    "required": ["z"],
    "properties": {"z": {"type": "string", "description": "ä"}, "a": {"enum": ["y", "b"]}},
    "$schema": "http://json-schema.org/draft-07/schema#",
}
UNMARKED = re.compile(rb',"cache_control":\{[^}]*\}')


def grown(client: Protocol) -> list[list[Json]]:
    """A session, request by request: each holds the one before."""
    arguments: Any = ODD_ARGUMENTS if client == C else json.loads(ODD_ARGUMENTS)
    turns: list[list[Json]] = [user("hi")]
    for number in range(4):
        ids = (f"call.{number}:a", f"call_{number}_" + "x" * 80)
        turns += [
            calls(client, (ids[0], "files.read", arguments), (ids[1], "Write", {"n": number})),
            results(client, (ids[1], f"result {number}"), (ids[0], "")),
            user("go on"),
            assistant(f"answer {number} "),
            [{"role": "system", "content": f"It is day {number}."}],
            user(f"question {number}"),
        ]
    return turns


def requests(client: Protocol, **fields: Any) -> list[Json]:
    tools = [tool(client, name, ODD_SCHEMA) for name in ("files.read", "Write", "an ä")]
    turns = grown(client)
    ends = [end for end in range(1, len(turns) + 1) if turns[end - 1][0]["role"] != "assistant"]
    head = [{"role": "system", "content": "Be kind."}] if client == C else []
    own = {"system": "Be kind.", "metadata": {"user_id": "u"}} if client == A else {"user": "u", "seed": 7}
    return [asking(client, head, *turns[:end], tools=tools, temperature=0.5, **own, **fields) for end in ends]


def bodies(client: Protocol, upstream: Protocol, dialect: Dialect | None = None) -> list[bytes]:
    return [ask(said, client, upstream, dialect).raw for said in requests(client)]


def common(earlier: bytes, later: bytes) -> int:
    return next((at for at, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), len(earlier))


@every_pair
def test_121_a_growing_conversation_keeps_the_bytes_of_its_beginning(client: Protocol, upstream: Protocol) -> None:
    """The end of a body is brackets; a turn that is joined to the last one continues inside it."""
    sent = [UNMARKED.sub(b"", body) for body in bodies(client, upstream)]
    assert len(sent) > 10
    for earlier, later in itertools.pairwise(sent):
        assert set(earlier[common(earlier, later) :]) <= set(b"]}"), earlier[common(earlier, later) :]


@every_client
def test_121_without_marks_of_ours_nothing_has_to_be_taken_away(client: Protocol) -> None:
    sent = bodies(client, A, anthropic.Dialect(cache="off"))
    for earlier, later in itertools.pairwise(sent):
        assert set(earlier[common(earlier, later) :]) <= set(b"]}")


@every_client
def test_121_strict_upstreams_see_stable_bytes_too(client: Protocol) -> None:
    dialects = (
        (C, openai_chat.Dialect(system="first", replay_reasoning=True)),
        (A, anthropic.Dialect(cache="off", system_in_messages=False)),
    )
    for upstream, dialect in dialects:
        sent = bodies(client, upstream, dialect)
        for earlier, later in itertools.pairwise(sent):
            assert set(earlier[common(earlier, later) :]) <= set(b"]}")


@every_pair
def test_121_the_same_request_is_the_same_bytes(client: Protocol, upstream: Protocol) -> None:
    assert bodies(client, upstream) == bodies(client, upstream)


@every_pair
def test_121_messages_come_last(client: Protocol, upstream: Protocol) -> None:
    for said in requests(client):
        assert list(ask(said, client, upstream).body)[-1] == "messages"


@every_pair
def test_121_tools_schemas_and_arguments_keep_the_order_of_their_keys(client: Protocol, upstream: Protocol) -> None:
    said = requests(client)[-1]
    body = json.dumps(said, ensure_ascii=False).encode()
    sent = ask(body, client, upstream)
    assert sent.names[1] == "Write"
    assert [list(schema) for schema in sent.tools.values()] == [list(ODD_SCHEMA)] * 3
    assert json.dumps(ODD_SCHEMA, ensure_ascii=False).encode() in sent.raw
    if client == C:
        spelled = json.dumps(ODD_ARGUMENTS, ensure_ascii=False) if upstream == C else ODD_ARGUMENTS
    else:
        kept = json.dumps(json.loads(ODD_ARGUMENTS), ensure_ascii=False)
        spelled = json.dumps(kept, ensure_ascii=False) if upstream == C else kept
    assert spelled.encode() in sent.raw


def test_121_a_line_that_changes_with_every_request_does_not_reach_other_upstreams() -> None:
    def raw(number: int) -> bytes:
        billing = text(f"x-anthropic-billing-header: cc_version=2.1.{number}; cch={number:05x};")
        return ask(asking(A, user("hi"), system=[billing, text("Be kind.")]), A, C).raw

    assert raw(1) == raw(2)
