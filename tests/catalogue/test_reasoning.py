"""Reasoning, entries 39 to 48: what models thought, on its way out and back."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalogue.asking import Dialect, Json, ask, asking, assistant, calls, parsed, results, tool, user
from tests.catalogue.checks import (
    assert_arguments,
    assert_in_order,
    chat_call,
    chat_reply,
    finish_of,
    frames_of,
    message_reply,
    said,
    tool_use,
)
from tests.catalogue.crossing import (
    CROSSINGS,
    Crossing,
    Protocol,
    block,
    call_delta,
    chat_stream,
    cross,
    events_of,
    message_stream,
    text_block,
    tool_block,
)
from tests.each import each
from tieline.core.history.thinking import ThinkingMemory
from tieline.core.history.tidy import tidy
from tieline.model.assemble import fold
from tieline.model.content import Message, Text
from tieline.wire import anthropic, openai_chat

everywhere = each("crossing", CROSSINGS, ids=str)

REPLAY = openai_chat.Dialect(replay_reasoning=True)
BUDGET = {"type": "enabled", "budget_tokens": 2048}
EXACT = "  First, the file.\n\n\tThen “é” \\u0041 — and a trailing space. \n"


def thought(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def redacted(data: str) -> Json:
    return {"type": "redacted_thinking", "data": data}


def turn(*blocks: Json) -> list[Json]:
    """What an assistant said, in blocks."""
    return [{"role": "assistant", "content": list(blocks)}]


def thinking_frames(index: int, text: str, signature: str) -> list[Json]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in (text[:5], text[5:]) if piece]
    signed = {"type": "signature_delta", "signature": signature}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)


def blocks_of(sent: Json) -> list[list[str]]:
    """The kinds of blocks in the assistant messages of a Messages request."""
    return [[b["type"] for b in m["content"]] for m in sent["messages"] if m["role"] == "assistant"]


def sent_after(
    thoughts: ThinkingMemory,
    backend: str,
    body: Json,
    client: Protocol,
    upstream: Protocol,
    dialect: Dialect | None = None,
) -> Json:
    """What a backend gets of a client's request when the gateway remembers."""
    request = parsed(body, client)
    messages, _ = tidy(request.messages)
    request = replace(request, messages=thoughts.restore(backend, messages))
    if isinstance(dialect, openai_chat.Dialect) or upstream == "openai_chat":
        assert not isinstance(dialect, anthropic.Dialect)
        out = openai_chat.build_request(request, dialect or openai_chat.Dialect())
    else:
        out = anthropic.build_request(request, dialect or anthropic.Dialect())
    found: Json = json.loads(out.body)
    return found


# ── 39–40: signatures ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("signature", [{"signature": ""}, {"signature": None}, {}], ids=str)
def test_039_thinking_without_a_signature_is_not_sent_to_an_upstream_that_checks(signature: Json) -> None:
    unsigned = {"type": "thinking", "thinking": "Hm, secretly", **signature}
    body = asking(
        "anthropic", user("hi"), turn(unsigned, said("Hello")), user("go on"), thinking=BUDGET, max_tokens=9000
    )
    sent = ask(body, "anthropic", "anthropic")
    assert blocks_of(sent.body) == [["text"]]
    assert b"secretly" not in sent.raw
    assert b"signature" not in sent.raw


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_039_thinking_a_chat_client_sends_back_is_never_given_an_invented_signature(field: str) -> None:
    message = {"role": "assistant", "content": "Hello", field: "Hm, secretly"}
    sent = ask(asking("openai_chat", user("hi"), [message], user("go on")), "openai_chat", "anthropic")
    assert blocks_of(sent.body) == [["text"]]
    assert b"secretly" not in sent.raw


@pytest.mark.parametrize(("dialect", "expected"), [(openai_chat.Dialect(), None), (REPLAY, "Hm")], ids=["no", "yes"])
@pytest.mark.parametrize("signature", ["", "sig"])
def test_039_an_upstream_without_signatures_gets_thinking_only_if_it_wants_it(
    dialect: openai_chat.Dialect, expected: str | None, signature: str
) -> None:
    body = asking("anthropic", user("hi"), turn(thought("Hm", signature), said("Hello")), user("go on"))
    sent = ask(body, "anthropic", "openai_chat", dialect)
    assert sent.messages[1].get("reasoning_content") == expected
    assert sent.messages[1]["content"] == "Hello"
    assert b"signature" not in sent.raw


def _loop(client: Protocol, *first: Json) -> Json:
    """A client in a tool loop, having got a call that was thought over."""
    if client == "anthropic":
        made = turn(*first, tool_use("c_1", "read", {"path": "a"}))
    else:
        made = calls(client, ("c_1", "read", {"path": "a"}))
    return asking(client, user("go"), made, results(client, ("c_1", "text")), tools=[tool(client, "read")])


SIGNED = message_stream(
    *thinking_frames(0, EXACT, "sig-1"), *tool_block(1, "c_1", "read", '{"path":"a"}'), stop="tool_use"
)


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_040_a_signature_goes_back_to_its_maker_and_to_nobody_else(client: Protocol) -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("east", (), fold(events_of(SIGNED, "anthropic")).parts)
    body = _loop(client, thought(EXACT, "sig-1"))
    east = sent_after(thoughts, "east", body, client, "anthropic")
    assert blocks_of(east) == [["thinking", "tool_use"]]
    assert east["messages"][1]["content"][0] == thought(EXACT, "sig-1")
    west = sent_after(thoughts, "west", body, client, "anthropic")
    assert blocks_of(west) == [["tool_use"]]
    assert "sig-1" not in json.dumps(west)


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_040_redacted_thinking_of_another_backend_is_left_out(client: Protocol) -> None:
    data = message_reply(redacted("opaque"), tool_use("c_1", "read", {"path": "a"}), stop="tool_use")
    thoughts = ThinkingMemory()
    thoughts.remember("east", (), fold(events_of(data, "anthropic", whole=True)).parts)
    body = _loop(client, redacted("opaque"))
    assert blocks_of(sent_after(thoughts, "east", body, client, "anthropic")) == [["redacted_thinking", "tool_use"]]
    assert blocks_of(sent_after(thoughts, "west", body, client, "anthropic")) == [["tool_use"]]


def test_040_a_session_that_returns_gets_its_signatures_back() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("east", (), fold(events_of(SIGNED, "anthropic")).parts)
    body = _loop("anthropic", thought(EXACT, "sig-1"))
    sent_after(thoughts, "west", body, "anthropic", "anthropic")
    assert blocks_of(sent_after(thoughts, "east", body, "anthropic", "anthropic")) == [["thinking", "tool_use"]]


# ── 41–44: thoughts of the history ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [EXACT, "", " ", "x" * 70_000])
def test_041_signed_thinking_is_sent_back_byte_for_byte(text: str) -> None:
    body = asking("anthropic", user("hi"), turn(thought(text, "sig=="), said("Hello")), user("go on"))
    sent = ask(body, "anthropic", "anthropic")
    assert sent.messages[1]["content"] == [thought(text, "sig=="), {"type": "text", "text": "Hello"}]


@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_041_thinking_is_shown_byte_for_byte(crossing: Crossing, whole: bool) -> None:
    stream = message_stream(*thinking_frames(0, EXACT, "sig=="), *text_block(1, "Hello"))
    data = message_reply(thought(EXACT, "sig=="), said("Hello")) if whole else stream
    seen = cross(data, "anthropic", crossing, whole=whole)
    assert (seen.thinking, seen.text) == (EXACT, "Hello")
    assert seen.signature == ("sig==" if crossing.client == "anthropic" else "")


@pytest.mark.parametrize("altered", ["First, the file.", EXACT.strip(), ""])
def test_041_thinking_a_client_altered_is_sent_as_it_was_or_not_at_all(altered: str) -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("east", (), fold(events_of(SIGNED, "anthropic")).parts)
    sent = sent_after(thoughts, "east", _loop("anthropic", thought(altered, "sig-1")), "anthropic", "anthropic")
    found = [b for b in sent["messages"][1]["content"] if b["type"] == "thinking"]
    assert found in ([], [thought(EXACT, "sig-1")])


LONG = [
    *user("one"),
    *turn(thought("t1", "s1"), said("a1")),
    *user("two"),
    *turn(thought("t2", ""), said("a2")),
    *user("three"),
    *turn(thought("t3", "s3"), said("a3")),
    *user("four"),
]


def test_042_when_a_thought_must_go_those_before_it_go_and_those_after_it_stay() -> None:
    sent = ask(asking("anthropic", LONG), "anthropic", "anthropic")
    assert blocks_of(sent.body) == [["text"], ["text"], ["thinking", "text"]]
    assert sent.messages[5]["content"][0] == thought("t3", "s3")


def test_042_a_turn_of_nothing_but_thoughts_keeps_its_place() -> None:
    body = asking("anthropic", user("one"), turn(thought("t1", "")), user("two"), assistant("b"), user("three"))
    sent = ask(body, "anthropic", "anthropic")
    assert sent.roles == ["user", "assistant", "user", "assistant", "user"]
    assert [text for role, text in sent.said if role == "user"] == ["one", "two", "three"]


def test_042_nothing_is_removed_from_a_history_whose_thoughts_are_all_signed() -> None:
    signed = [json.loads(json.dumps(message).replace('"signature": ""', '"signature": "s2"')) for message in LONG]
    sent = ask(asking("anthropic", signed), "anthropic", "anthropic")
    assert blocks_of(sent.body) == [["thinking", "text"]] * 3


def test_043_thoughts_stand_before_the_calls_of_their_turn() -> None:
    made = turn(said("I look."), tool_use("c_1", "read", {}), thought("late", "s1"))
    body = asking("anthropic", user("go"), made, results("anthropic", ("c_1", "r")), tools=[tool("anthropic", "read")])
    (kinds,) = blocks_of(ask(body, "anthropic", "anthropic").body)
    assert kinds.index("thinking") < kinds.index("tool_use")


@pytest.mark.parametrize("signatures", [("s1", ""), ("", "s2"), ("s1", "s2"), ("", "")], ids=str)
def test_043_the_thoughts_of_a_tool_loop_go_all_or_not_at_all(signatures: tuple[str, str]) -> None:
    first, second = signatures
    body = asking(
        "anthropic",
        user("go"),
        turn(thought("t1", first), tool_use("c_1", "read", {"a": 1})),
        results("anthropic", ("c_1", "r1")),
        turn(thought("t2", second), tool_use("c_2", "read", {"a": 2})),
        results("anthropic", ("c_2", "r2")),
        tools=[tool("anthropic", "read")],
        thinking=BUDGET,
        max_tokens=9000,
    )
    sent = ask(body, "anthropic", "anthropic")
    kept = all(signatures)
    assert blocks_of(sent.body) == [["thinking", "tool_use"] if kept else ["tool_use"]] * 2
    # The API refuses a budget for a tool loop that does not begin with a thought.
    assert sent.body["thinking"] == (BUDGET if kept else {"type": "disabled"})
    assert [given for _, _, given in sent.calls] == [{"a": 1}, {"a": 2}]


@each("whole", [False, True], ids=["stream", "whole"])
@everywhere
def test_044_redacted_thinking_reaches_a_client_that_can_hold_it(crossing: Crossing, whole: bool) -> None:
    call = tool_block(1, "c_1", "read", '{"a":1}')
    stream = message_stream(*block(0, redacted("EmwKAh==")), *call, stop="tool_use")
    reply = message_reply(redacted("EmwKAh=="), tool_use("c_1", "read", {"a": 1}), stop="tool_use")
    seen = cross(reply if whole else stream, "anthropic", crossing, whole=whole)
    assert seen.order == (["redacted_thinking", "call"] if crossing.client == "anthropic" else ["call"])
    assert (b'"data":"EmwKAh=="' in seen.raw) == (crossing.client == "anthropic")
    assert seen.finish == finish_of(crossing, "tool_use")
    assert_arguments(seen, crossing, '{"a":1}')
    assert_in_order(seen, crossing)


def test_044_redacted_thinking_of_the_history_is_sent_back() -> None:
    sent = ask(_loop("anthropic", thought("t1", "s1"), redacted("EmwKAh==")), "anthropic", "anthropic")
    assert sent.messages[1]["content"][:2] == [thought("t1", "s1"), redacted("EmwKAh==")]


# ── 45–47: thinking in streams ──────────────────────────────────────────────────────────────────

AT_ONCE = {
    "one delta": message_stream(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm", "signature": "sig"},
        ),
        *text_block(1, "Hello"),
    ),
    "the start": message_stream(*block(0, thought("Hm", "sig")), *text_block(1, "Hello")),
    "an odd name": message_stream(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "signature_delta", "thinking": "Hm", "signature": "sig"},
        ),
        *text_block(1, "Hello"),
    ),
}


@each("case", AT_ONCE)
@everywhere
def test_045_thinking_and_signature_in_one_chunk_are_both_kept(crossing: Crossing, case: str) -> None:
    seen = cross(AT_ONCE[case], "anthropic", crossing)
    assert (seen.error, seen.thinking, seen.text) == (None, "Hm", "Hello")
    assert seen.signature == ("sig" if crossing.client == "anthropic" else "")
    assert_in_order(seen, crossing)


@everywhere
def test_045_thinking_and_signature_in_one_chat_chunk_are_no_error(crossing: Crossing) -> None:
    delta = {"reasoning_content": "Hm", "thinking_blocks": [thought("Hm", "sig")], "content": ""}
    for data, whole in (
        (chat_stream(delta, {"content": "Hello"}), False),
        (chat_reply({**delta, "content": "Hello"}), True),
    ):
        seen = cross(data, "openai_chat", crossing, whole=whole)
        assert (seen.error, seen.thinking, seen.text) == (None, "Hm", "Hello")
        assert_in_order(seen, crossing)


FIRST_THOUGHTS: dict[str, tuple[Protocol, bytes]] = {
    "after an empty content": (
        "openai_chat",
        chat_stream(
            {"role": "assistant", "content": "", "reasoning_content": None},
            {"content": None, "reasoning_content": "Let "},
            {"content": "", "reasoning_content": "me see."},
            {"content": "It is", "reasoning_content": None},
            {"content": " four."},
        ),
    ),
    "at once": ("openai_chat", chat_stream({"reasoning_content": "Let me see."}, {"content": "It is four."})),
    "in blocks": (
        "anthropic",
        message_stream(*thinking_frames(0, "Let me see.", "sig"), *text_block(1, "It is", " four.")),
    ),
}


@each("case", FIRST_THOUGHTS)
@everywhere
def test_046_a_stream_that_begins_with_thinking_begins_with_thinking(crossing: Crossing, case: str) -> None:
    upstream, data = FIRST_THOUGHTS[case]
    seen = cross(data, upstream, crossing)
    assert (seen.thinking, seen.text, seen.order) == ("Let me see.", "It is four.", ["thinking", "text"])
    assert_in_order(seen, crossing)
    if crossing.client == "anthropic" and crossing.stream:
        kinds = [frame["content_block"]["type"] for frame in frames_of(seen, "content_block_start")]
        assert kinds == ["thinking", "text"]


def _details(text: str) -> list[Json]:
    return [{"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0}]


FIELDS: dict[str, list[Json]] = {
    "reasoning_content (DeepSeek)": [{"reasoning_content": "Let "}, {"reasoning_content": "me see."}],
    "reasoning (Ollama, vLLM)": [{"reasoning": "Let "}, {"reasoning": "me see."}],
    "reasoning and details (OpenRouter)": [
        {"reasoning": text, "reasoning_details": _details(text), "content": ""} for text in ("Let ", "me see.")
    ],
    "details alone": [{"reasoning_details": _details(text)} for text in ("Let ", "me see.")],
    "summaries": [{"reasoning_details": [{"type": "reasoning.summary", "summary": "Let me see."}]}],
    "blocks (LiteLLM)": [{"thinking_blocks": [thought(text, "")]} for text in ("Let ", "me see.")],
    "content and blocks": [
        {"reasoning_content": text, "thinking_blocks": [thought(text, "s")]} for text in ("Let ", "me see.")
    ],
    "both names": [{"reasoning_content": text, "reasoning": text} for text in ("Let ", "me see.")],
    "parts of the content (Mistral)": [
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
        for text in ("Let ", "me see.")
    ],
}


@each("case", FIELDS)
@everywhere
def test_047_thinking_is_read_under_every_name_and_only_once(crossing: Crossing, case: str) -> None:
    deltas = FIELDS[case]
    seen = cross(chat_stream(*deltas, {"content": "It is four."}), "openai_chat", crossing)
    assert (seen.thinking, seen.text, seen.order) == ("Let me see.", "It is four.", ["thinking", "text"])


WHOLE_FIELDS: list[Json] = [
    {"reasoning_content": "Let me see."},
    {"reasoning": "Let me see."},
    {"reasoning": "Let me see.", "reasoning_details": _details("Let me see.")},
    {"reasoning_details": _details("Let me see.")},
    {"thinking_blocks": [thought("Let me see.", "s")]},
    {"reasoning_content": "Let me see.", "thinking_blocks": [thought("Let me see.", "s")]},
]


@each("fields", WHOLE_FIELDS, ids=lambda fields: "+".join(fields))
@everywhere
def test_047_thinking_of_a_whole_reply_is_read_under_every_name(crossing: Crossing, fields: Json) -> None:
    seen = cross(chat_reply({"content": "It is four.", **fields}), "openai_chat", crossing, whole=True)
    assert (seen.thinking, seen.text, seen.order) == ("Let me see.", "It is four.", ["thinking", "text"])


@pytest.mark.parametrize(("field", "there"), [("reasoning_content", 1), ("reasoning", 1), ("none", 0)])
@pytest.mark.parametrize("case", FIRST_THOUGHTS)
def test_047_thinking_is_shown_under_the_name_the_client_reads(case: str, field: Any, there: int) -> None:
    upstream, data = FIRST_THOUGHTS[case]
    events = events_of(data, upstream)
    options = openai_chat.Options(created=1, reasoning=field)
    writer = openai_chat.ResponseWriter(options)
    lines = b"".join(writer.write(event) for event in events).decode().splitlines()
    deltas = [c["delta"] for line in lines if line.startswith("data: {") for c in json.loads(line[6:])["choices"]]
    streamed = {name: "".join(d.get(name) or "" for d in deltas) for name in ("reasoning_content", "reasoning")}
    message = json.loads(openai_chat.render(fold(events), options))["choices"][0]["message"]
    whole = {name: message.get(name, "") for name in ("reasoning_content", "reasoning")}
    expected = {name: "Let me see." * (there and name == field) for name in ("reasoning_content", "reasoning")}
    assert streamed == whole == expected
    assert message["content"] == "".join(d.get("content") or "" for d in deltas) == "It is four."


# ── 48: thinking an upstream demands and clients drop ───────────────────────────────────────────

THOUGHT_OVER = chat_stream(
    {"role": "assistant", "content": "", "reasoning_content": ""},
    {"reasoning_content": " I need the file.\n"},
    {"content": "Reading."},
    call_delta(0, '{"path": "a"}', id="c_1", name="read"),
    call_delta(1, '{"path": "b"}', id="c_2", name="read"),
    finish="tool_calls",
)


def _dropped(client: Protocol) -> Json:
    """The next request of a client that kept everything but the thinking."""
    made = [("c_1", "read", {"path": "a"}), ("c_2", "read", {"path": "b"})]
    (message,) = calls(client, *made)
    if client == "anthropic":
        message["content"].insert(0, said("Reading."))
    else:
        message["content"] = "Reading."
    answers = results(client, ("c_1", "A"), ("c_2", "B"))
    return asking(client, user("go"), [message], answers, tools=[tool(client, "read")])


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_048_thinking_a_client_dropped_is_put_back_on_tool_turns(client: Protocol, whole: bool, field: Any) -> None:
    reply = chat_reply(
        {
            "reasoning_content": " I need the file.\n",
            "content": "Reading.",
            "tool_calls": [chat_call("c_1", "read", '{"path": "a"}'), chat_call("c_2", "read", '{"path": "b"}')],
        },
        "tool_calls",
    )
    thoughts = ThinkingMemory()
    leg = events_of(reply if whole else THOUGHT_OVER, "openai_chat", whole=whole)
    thoughts.remember("deepseek", (), fold(leg).parts)
    dialect = openai_chat.Dialect(replay_reasoning=True, reasoning_field=field)
    sent = sent_after(thoughts, "deepseek", _dropped(client), client, "openai_chat", dialect)
    message = sent["messages"][1]
    assert message[field] == " I need the file.\n"
    assert message["content"] == "Reading."
    assert [call["id"] for call in message["tool_calls"]] == ["c_1", "c_2"]


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_048_thinking_before_mere_words_is_put_back_too(client: Protocol) -> None:
    thoughts = ThinkingMemory()
    leg = events_of(chat_stream({"reasoning_content": "2+2"}, {"content": "It is four."}), "openai_chat")
    asked = (Message(role="user", parts=(Text(text="add"),)),)
    thoughts.remember("deepseek", asked, fold(leg).parts)
    body = asking(client, user("add"), assistant("It is four."), user("sure?"))
    sent = sent_after(thoughts, "deepseek", body, client, "openai_chat", REPLAY)
    assert [message.get("reasoning_content") for message in sent["messages"]] == [None, "2+2", None]


def test_048_thinking_the_client_did_send_back_is_not_doubled() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("deepseek", (), fold(events_of(THOUGHT_OVER, "openai_chat")).parts)
    body = _dropped("openai_chat")
    body["messages"][1]["reasoning_content"] = " I need the file.\n"
    sent = sent_after(thoughts, "deepseek", body, "openai_chat", "openai_chat", REPLAY)
    assert sent["messages"][1]["reasoning_content"] == " I need the file.\n"


def test_048_an_upstream_that_does_not_want_thinking_gets_none() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("plain", (), fold(events_of(THOUGHT_OVER, "openai_chat")).parts)
    sent = sent_after(thoughts, "plain", _dropped("openai_chat"), "openai_chat", "openai_chat")
    assert "reasoning_content" not in sent["messages"][1]


def _counted(text: str, path: str) -> bytes:
    call = {"tool_calls": [chat_call("functions.read:0", "read", json.dumps({"path": path}), index=0)]}
    return chat_stream({"reasoning_content": text}, call, finish="tool_calls")


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_048_conversations_whose_calls_have_the_same_ids_keep_their_own_thoughts(client: Protocol) -> None:
    """Kimi counts its calls from zero in every conversation."""
    thoughts = ThinkingMemory()
    for text, path in (("about a", "a"), ("about b", "b")):
        thoughts.remember("kimi", (), fold(events_of(_counted(text, path), "openai_chat")).parts)
    for expected, path in (("about a", "a"), ("about b", "b"), (None, "c")):
        call_id = "tlx_functions-2eread-3a0" if client == "anthropic" else "functions.read:0"
        made = calls(client, (call_id, "read", {"path": path}))
        body = asking(client, user("go"), made, results(client, (call_id, "r")), tools=[tool(client, "read")])
        sent = sent_after(thoughts, "kimi", body, client, "openai_chat", REPLAY)
        assert sent["messages"][1].get("reasoning_content") == expected
        assert sent["messages"][1]["tool_calls"][0]["id"] == "functions.read:0"


def test_048_signed_thinking_is_put_back_whole_when_the_client_kept_only_its_text() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("east", (), fold(events_of(SIGNED, "anthropic")).parts)
    body = _loop("openai_chat")
    body["messages"][1]["reasoning_content"] = EXACT
    sent = sent_after(thoughts, "east", body, "openai_chat", "anthropic")
    assert sent["messages"][1]["content"][0] == thought(EXACT, "sig-1")
