"""Known failures 84 to 96: history and ids, from any client to any upstream."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalogue.asking import PAIRS, Json, ask, ask_anything, asking, assistant, calls, results, tool, user
from tests.catalogue.crossing import (
    CROSSINGS,
    PROTOCOLS,
    Crossing,
    Protocol,
    call_delta,
    chat_stream,
    cross,
    message_stream,
    tool_block,
)
from tests.each import each
from tieline.core.history.tidy import INTERRUPTED
from tieline.model.errors import BadRequest
from tieline.wire import openai_chat

every_pair = pytest.mark.parametrize(("client", "upstream"), PAIRS)
every_crossing = each("crossing", CROSSINGS)
every_upstream = each("upstream", PROTOCOLS)

PIXEL = "iVBORw0KGgo="
A_CALL = ("call_a", "read", {"path": "a"})
B_CALL = ("call_b", "read", {"path": "b"})


def offered(client: Protocol, *messages: list[Json], **fields: Any) -> Json:
    return asking(client, *messages, tools=[tool(client, "read")], **fields)


# ── 84 and 85: where results stand ───────────────────────────────────────────────────────────────


@every_upstream
def test_084_results_come_before_the_words_of_their_turn(upstream: Protocol) -> None:
    turn = [{"type": "text", "text": "Go on."}, *results("anthropic", ("call_a", "one"))[0]["content"]]
    said = offered("anthropic", user("hi"), calls("anthropic", A_CALL), [{"role": "user", "content": turn}])
    sent = ask(said, "anthropic", upstream)
    assert sent.results == [("call_a", "one")]
    assert sent.said == [("user", "hi"), ("user", "Go on.")]
    assert sent.kinds == ["history"]


@every_pair
def test_084_words_between_a_call_and_its_result_come_after_it(client: Protocol, upstream: Protocol) -> None:
    said = offered(client, user("hi"), calls(client, A_CALL), user("Hurry!"), results(client, ("call_a", "one")))
    sent = ask(said, client, upstream)
    assert sent.results == [("call_a", "one")]
    assert sent.said == [("user", "hi"), ("user", "Hurry!")]


@every_pair
def test_085_parallel_results_come_in_one_turn_in_call_order(client: Protocol, upstream: Protocol) -> None:
    given = results(client, ("call_b", "two"), ("call_a", "one"))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), given), client, upstream)
    assert sent.results == [("call_a", "one"), ("call_b", "two")]
    assert sent.roles == ["user", "assistant"] + (["user"] if upstream == "anthropic" else ["tool", "tool"])


@every_pair
def test_085_results_in_separate_turns_come_together(client: Protocol, upstream: Protocol) -> None:
    apart = [*results(client, ("call_b", "two")), *results(client, ("call_a", "one"))]
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), apart), client, upstream)
    assert sent.results == [("call_a", "one"), ("call_b", "two")]
    assert len(sent.messages) == (3 if upstream == "anthropic" else 4)


@every_pair
def test_085_parallel_calls_in_a_message_each_are_one_turn(client: Protocol, upstream: Protocol) -> None:
    apart = [*calls(client, A_CALL), *calls(client, B_CALL)]
    given = results(client, ("call_a", "one"), ("call_b", "two"))
    sent = ask(offered(client, user("hi"), apart, given), client, upstream)
    assert sent.roles[:2] == ["user", "assistant"]
    assert sent.calls == [A_CALL, B_CALL]
    assert sent.results == [("call_a", "one"), ("call_b", "two")]


@every_pair
def test_085_what_is_in_order_goes_out_without_a_note(client: Protocol, upstream: Protocol) -> None:
    given = results(client, ("call_a", "one"), ("call_b", "two"))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), given, user("ok")), client, upstream)
    assert sent.notes == ()


# ── 86 to 89: pairs that are none ────────────────────────────────────────────────────────────────


@every_pair
def test_086_a_result_without_its_call_is_kept_as_text(client: Protocol, upstream: Protocol) -> None:
    said = offered(client, user("Summary: you read a."), results(client, ("call_gone", "content of a")), user("ok"))
    sent = ask(said, client, upstream)
    assert sent.results == []
    assert "content of a" in "".join(text for _, text in sent.said)
    assert "call_gone" in "".join(text for _, text in sent.said)
    assert sent.kinds == ["history"]


@every_pair
@pytest.mark.parametrize("after", [[], user("never mind")])
def test_087_a_call_without_its_result_gets_an_error(client: Protocol, upstream: Protocol, after: list[Json]) -> None:
    sent = ask(offered(client, user("hi"), calls(client, A_CALL), after), client, upstream)
    ((call_id, text),) = sent.results
    assert call_id == "call_a"
    assert text.removeprefix("Error: ") == INTERRUPTED
    assert sent.kinds == ["history"]
    if upstream == "anthropic":
        assert sent.blocks("tool_result")[0]["is_error"] is True
    assert [text for role, text in sent.said if role == "user"][1:] == [message["content"] for message in after]


@every_pair
def test_087_one_of_two_calls_was_interrupted(client: Protocol, upstream: Protocol) -> None:
    said = offered(client, user("hi"), calls(client, A_CALL, B_CALL), results(client, ("call_b", "two")), user("ok"))
    sent = ask(said, client, upstream)
    assert [call_id for call_id, _ in sent.results] == ["call_a", "call_b"]
    assert sent.results[1] == ("call_b", "two")


@every_pair
def test_088_of_two_results_the_last_counts_at_the_first_place(client: Protocol, upstream: Protocol) -> None:
    given = results(client, ("call_a", "old"), ("call_b", "two"), ("call_a", "new"))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), given), client, upstream)
    assert sent.results == [("call_a", "new"), ("call_b", "two")]
    assert sent.kinds == ["history"]


@every_pair
def test_088_an_id_that_is_used_again_belongs_to_the_result_after_it(client: Protocol, upstream: Protocol) -> None:
    again = (A_CALL[0], "read", {"path": "z"})
    turns = [calls(client, A_CALL), results(client, ("call_a", "one")), calls(client, again)]
    sent = ask(offered(client, user("hi"), *turns, results(client, ("call_a", "two"))), client, upstream)
    first, second = sent.calls
    assert first == A_CALL
    assert second[0] != first[0]
    assert second[1:] == again[1:]
    assert sent.results == [(first[0], "one"), (second[0], "two")]


@every_pair
def test_088_the_same_call_twice_is_one(client: Protocol, upstream: Protocol) -> None:
    said = offered(client, user("hi"), calls(client, A_CALL, A_CALL), results(client, ("call_a", "one")))
    sent = ask(said, client, upstream)
    assert sent.calls == [A_CALL]
    assert sent.results == [("call_a", "one")]


@every_pair
def test_088_two_different_calls_with_one_id_get_a_result_each(client: Protocol, upstream: Protocol) -> None:
    other = ("call_a", "read", {"path": "b"})
    given = results(client, ("call_a", "one"), ("call_a", "two"))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, other), given), client, upstream)
    assert len({call_id for call_id, _, _ in sent.calls}) == 2
    assert [text for _, text in sent.results] == ["one", "two"]


@every_pair
@pytest.mark.parametrize("given", [("call_a", "call_b"), ("", ""), ("", "call_b")])
def test_089_results_without_an_id_belong_to_the_calls_in_order(
    client: Protocol, upstream: Protocol, given: tuple[str, str]
) -> None:
    answers = results(client, *zip(given, ("one", "two"), strict=True))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), answers), client, upstream)
    assert sent.results == [("call_a", "one"), ("call_b", "two")]


@every_upstream
@each("field", [{}, {"tool_call_id": None}, {"name": "write"}])
def test_089_a_result_may_lack_its_id_altogether(upstream: Protocol, field: Json) -> None:
    write = ("call_w", "write", {"path": "b"})
    order = [write, A_CALL] if field.get("name") else [write]
    given = [
        {"role": "tool", "content": "done", **field},
        *results("openai_chat", *[("call_a", "one")] * (len(order) - 1)),
    ]
    sent = ask(offered("openai_chat", user("hi"), calls("openai_chat", *order), given), "openai_chat", upstream)
    assert sent.results[0] == ("call_w", "done")


@every_upstream
def test_089_results_that_could_belong_to_any_call_are_kept_as_text(upstream: Protocol) -> None:
    given = results("openai_chat", ("", "one of them"))
    said = offered("openai_chat", user("hi"), calls("openai_chat", A_CALL, B_CALL), given)
    sent = ask(said, "openai_chat", upstream)
    assert [call_id for call_id, _ in sent.results] == ["call_a", "call_b"]
    assert "one of them" in sent.said[-1][1]


# ── 90 and 91: ids ───────────────────────────────────────────────────────────────────────────────

ODD_IDS = ["functions.Bash:0", "call 1/2", "anruf_ä", "tlx_call", "a" * 300]
LONG = "call_" + "x" * 95


def upstream_call(upstream: Protocol, call_id: str, name: str, arguments: str = '{"path":"a"}') -> bytes:
    """An answer with one call."""
    if upstream == "anthropic":
        return message_stream(*tool_block(0, call_id, name, arguments), stop="tool_use")
    return chat_stream(call_delta(0, arguments, id=call_id, name=name), finish="tool_calls")


@every_pair
@pytest.mark.parametrize("call_id", ODD_IDS)
def test_090_an_odd_id_is_spelled_alike_in_call_and_result(client: Protocol, upstream: Protocol, call_id: str) -> None:
    said = offered(client, user("hi"), calls(client, (call_id, "read", {})), results(client, (call_id, "one")))
    sent = ask(said, client, upstream)
    assert sent.calls[0][0] == sent.results[0][0]
    assert sent.kinds == []


@every_crossing
@every_upstream
@each("call_id", ODD_IDS)
def test_090_an_upstreams_id_goes_to_the_client_and_comes_back(
    upstream: Protocol, crossing: Crossing, call_id: str
) -> None:
    client = crossing.asked
    seen = cross(upstream_call(upstream, call_id, "read"), upstream, crossing)
    theirs = seen.calls[0].id
    if client == "anthropic":
        assert theirs.replace("-", "").replace("_", "").isalnum()
        assert theirs.isascii()
    said = offered(client, user("hi"), calls(client, (theirs, "read", {})), results(client, (theirs, "one")))
    sent = ask(said, client, upstream)
    assert sent.calls[0][0] == sent.results[0][0]
    if upstream == "openai_chat" and len(call_id) <= 64:
        assert sent.calls[0][0] == call_id


@every_pair
def test_090_a_plain_id_stays_as_it_is(client: Protocol, upstream: Protocol) -> None:
    for call_id in ("toolu_01A09q90qw90lq917835lq9", "call_KlZ3-_x", "0"):
        said = offered(client, user("hi"), calls(client, (call_id, "read", {})), results(client, (call_id, "one")))
        assert ask(said, client, upstream).calls[0][0] == call_id


@every_pair
def test_091_long_ids_that_begin_alike_stay_apart(client: Protocol, upstream: Protocol) -> None:
    made = [(LONG + letter, "read", {"path": letter}) for letter in "ab"]
    given = results(client, (LONG + "b", "two"), (LONG + "a", "one"))
    sent = ask(offered(client, user("hi"), calls(client, *made), given), client, upstream)
    ids = [call_id for call_id, _, _ in sent.calls]
    assert len(set(ids)) == 2
    assert all(len(call_id) <= 64 for call_id in ids)
    assert sent.results == [(ids[0], "one"), (ids[1], "two")]


@pytest.mark.parametrize("client", PROTOCOLS)
def test_091_an_upstream_may_take_only_forty_characters(client: Protocol) -> None:
    call_id = "call_" + "x" * 40
    said = offered(client, user("hi"), calls(client, (call_id, "read", {})), results(client, (call_id, "one")))
    sent = ask(said, client, "openai_chat", openai_chat.Dialect(id_limit=40))
    assert len(sent.calls[0][0]) <= 40
    assert sent.calls[0][0] == sent.results[0][0]


# ── 92 and 93: names ─────────────────────────────────────────────────────────────────────────────

ODD_NAMES = ["files.read", "mcp/files/read", "lies ä", "n" * 80]


@every_pair
@pytest.mark.parametrize("name", ODD_NAMES)
def test_092_a_name_is_spelled_alike_in_tools_history_and_choice(
    client: Protocol, upstream: Protocol, name: str
) -> None:
    forced: Json = {"type": "tool", "name": name}
    if client == "openai_chat":
        forced = {"type": "function", "function": {"name": name}}
    turns = [user("hi"), calls(client, ("c1", name, {})), results(client, ("c1", "one"))]
    sent = ask(asking(client, *turns, tools=[tool(client, name)], tool_choice=forced), client, upstream)
    (spelled,) = sent.names
    assert sent.calls[0][1] == spelled
    choice = sent.body["tool_choice"]
    assert (choice["name"] if upstream == "anthropic" else choice["function"]["name"]) == spelled


@every_crossing
@every_upstream
@each("name", ODD_NAMES)
def test_092_the_client_hears_its_own_spelling(upstream: Protocol, crossing: Crossing, name: str) -> None:
    client = crossing.asked
    sent = ask(asking(client, user("hi"), tools=[tool(client, name)]), client, upstream)
    seen = cross(upstream_call(upstream, "c1", sent.names[0]), upstream, crossing, spelled=sent.spelled)
    assert seen.names == [name]


@every_pair
def test_092_names_that_would_be_spelled_alike_stay_apart(client: Protocol, upstream: Protocol) -> None:
    names = ["a.b", "a_b", "a/b", "a" * 70, "a" * 71]
    sent = ask(asking(client, user("hi"), tools=[tool(client, name) for name in names]), client, upstream)
    assert len(set(sent.names)) == len(names)
    assert sent.names[1] == "a_b"
    for own, spelled in zip(names, sent.names, strict=True):
        seen = cross(
            upstream_call(upstream, "c1", spelled), upstream, Crossing(client, stream=True), spelled=sent.spelled
        )
        assert seen.names == [own]


@every_crossing
@every_upstream
@each(
    ("offers", "called", "expected"),
    [
        (["Bash"], "bash", "Bash"),
        (["Bash", "Read"], "READ", "Read"),
        (["mcp__files__read"], "read", "mcp__files__read"),
        (["read"], "mcp__files__read", "read"),
        (["Bash", "bash"], "BASH", "BASH"),
        (["Bash"], "Write", "Write"),
    ],
)
def test_093_a_changed_case_or_prefix_is_undone_where_it_is_plain(
    upstream: Protocol, crossing: Crossing, offers: list[str], called: str, expected: str
) -> None:
    client = crossing.asked
    sent = ask(asking(client, user("hi"), tools=[tool(client, name) for name in offers]), client, upstream)
    seen = cross(upstream_call(upstream, "c1", called), upstream, crossing, spelled=sent.spelled)
    assert seen.names == [expected]


@every_crossing
@every_upstream
def test_093_a_whole_answer_gets_its_names_back_too(upstream: Protocol, crossing: Crossing) -> None:
    client = crossing.asked
    sent = ask(asking(client, user("hi"), tools=[tool(client, "files.read")]), client, upstream)
    call = {"name": "FILES_read", "arguments": "{}"}
    message: Json = {"role": "assistant", "content": None}
    message["tool_calls"] = [{"id": "c1", "type": "function", "function": call}]
    body: Json = {"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    if upstream == "anthropic":
        block = {"type": "tool_use", "id": "c1", "name": "FILES_read", "input": {}}
        body = {"id": "x", "model": "m", "type": "message", "role": "assistant", "content": [block]}
        body["stop_reason"] = "tool_use"
    seen = cross(json.dumps(body).encode(), upstream, crossing, spelled=sent.spelled, whole=True)
    assert seen.names == ["files.read"]


# ── 94 to 96: what results and messages hold ─────────────────────────────────────────────────────


@every_upstream
def test_094_the_error_of_a_tool_is_not_lost(upstream: Protocol) -> None:
    given = results("anthropic", ("call_a", "no such file"))
    given[0]["content"][0]["is_error"] = True
    sent = ask(offered("anthropic", user("hi"), calls("anthropic", A_CALL), given), "anthropic", upstream)
    if upstream == "anthropic":
        assert sent.blocks("tool_result")[0]["is_error"] is True
        assert sent.results == [("call_a", "no such file")]
    else:
        assert sent.results == [("call_a", "Error: no such file")]


@every_upstream
def test_094_a_result_that_is_fine_is_not_called_an_error(upstream: Protocol) -> None:
    given = results("anthropic", ("call_a", "fine"))
    given[0]["content"][0]["is_error"] = False
    sent = ask(offered("anthropic", user("hi"), calls("anthropic", A_CALL), given), "anthropic", upstream)
    assert sent.results == [("call_a", "fine")]
    assert b'"is_error": true' not in sent.raw
    assert b'"is_error":true' not in sent.raw


@every_upstream
@each("content", [{"ok": True, "rows": [1, 2]}, [1, "two"], 42, 2.5, True, [{"type": "row"}]])
def test_094_a_result_that_is_no_text_becomes_its_json(upstream: Protocol, content: Any) -> None:
    said = offered("openai_chat", user("hi"), calls("openai_chat", A_CALL), results("openai_chat", ("call_a", content)))
    ((_, text),) = ask(said, "openai_chat", upstream).results
    assert json.loads(text) == content


@every_pair
@pytest.mark.parametrize("content", ["", None, []])
def test_094_an_empty_result_is_a_result(client: Protocol, upstream: Protocol, content: Any) -> None:
    said = offered(client, user("hi"), calls(client, A_CALL), results(client, ("call_a", content)))
    assert ask(said, client, upstream).results == [("call_a", "")]


def picture(client: Protocol) -> Json:
    if client == "anthropic":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


@every_pair
def test_095_a_picture_in_a_result_arrives(client: Protocol, upstream: Protocol) -> None:
    content = [{"type": "text", "text": "a screenshot"}, picture(client)]
    given = results(client, ("call_a", content), ("call_b", "two"))
    sent = ask(offered(client, user("hi"), calls(client, A_CALL, B_CALL), given, user("well?")), client, upstream)
    if upstream == "anthropic":
        assert sent.blocks("tool_result")[0]["content"] == [content[0], picture("anthropic")]
        assert sent.said[-1] == ("user", "well?")
    else:
        texts = ["a screenshot", "[image: it follows in the next user message]"]
        assert sent.results[0] == ("call_a", ("|" if client == upstream else "\n\n").join(texts))
        assert sent.roles == ["user", "assistant", "tool", "tool", "user", "user"]
        assert sent.messages[4]["content"][1:] == [picture("openai_chat")]
        assert "call_a" in sent.messages[4]["content"][0]["text"]


@pytest.mark.parametrize("client", PROTOCOLS)
def test_095_an_upstream_may_take_pictures_in_results(client: Protocol) -> None:
    given = results(client, ("call_a", [picture(client)]))
    said = offered(client, user("hi"), calls(client, A_CALL), given)
    sent = ask_anything(said, client, "openai_chat", openai_chat.Dialect(images_in_tools=True))
    assert sent.messages[2]["content"] == [picture("openai_chat")]
    assert sent.roles == ["user", "assistant", "tool"]


@every_upstream
def test_095_a_document_in_a_result_arrives(upstream: Protocol) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}
    document = {"type": "document", "source": source, "title": "a.pdf"}
    given = results("anthropic", ("call_a", [document]))
    sent = ask(offered("anthropic", user("hi"), calls("anthropic", A_CALL), given), "anthropic", upstream)
    if upstream == "anthropic":
        assert sent.blocks("tool_result")[0]["content"] == [document]
    else:
        assert sent.results == [("call_a", "[file: it follows in the next user message]")]
        file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="}
        assert sent.messages[-1]["content"][-1] == {"type": "file", "file": file}


def test_095_a_document_by_its_address_is_not_promised_where_it_cannot_follow() -> None:
    document = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    given = results("anthropic", ("call_a", [document]))
    sent = ask(offered("anthropic", user("hi"), calls("anthropic", A_CALL), given), "anthropic", "openai_chat")
    assert "left_out" in sent.kinds
    assert "https://example.com/a.pdf" in "".join(text for _, text in (*sent.results, *sent.said))


@every_pair
@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
def test_096_a_call_without_words_stands_alone(client: Protocol, upstream: Protocol, content: Any) -> None:
    turn = calls(client, A_CALL)
    if client == "anthropic":
        turn[0]["content"] = [*(content or ()), *turn[0]["content"]]
    else:
        turn[0]["content"] = content
    sent = ask(offered(client, user("hi"), turn, results(client, ("call_a", "one"))), client, upstream)
    if upstream == "anthropic":
        assert [block["type"] for block in sent.messages[1]["content"]] == ["tool_use"]
    else:
        assert sent.messages[1]["content"] in (None, "")


def test_096_content_of_a_call_is_null_for_chat_completions() -> None:
    for client in PROTOCOLS:
        said = offered(client, user("hi"), calls(client, A_CALL), results(client, ("call_a", "one")))
        assert ask(said, client, "openai_chat").messages[1]["content"] is None


@every_pair
@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}], [{"type": "text", "text": " \n"}]])
def test_096_an_empty_message_keeps_the_turns_apart(client: Protocol, upstream: Protocol, content: Any) -> None:
    for role in ("user", "assistant"):
        turns = [user("hi"), assistant("hello"), user("go"), assistant("done"), user("bye")]
        turns[2 if role == "user" else 3] = [{"role": role, "content": content}]
        sent = ask(asking(client, *turns), client, upstream)
        assert sent.roles == ["user", "assistant", "user", "assistant", "user"]


@every_pair
def test_096_content_that_is_not_there_at_all(client: Protocol, upstream: Protocol) -> None:
    turns = [user("hi"), [{"role": "assistant"}], user("go"), [{"role": "user"}]]
    sent = ask(asking(client, *turns), client, upstream)
    assert sent.said[0] == ("user", "hi")


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_096_a_message_of_parts_nobody_else_knows_is_refused_and_not_emptied(upstream: Protocol) -> None:
    upload = [{"type": "container_upload", "file_id": "file_1"}]
    audio = [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]
    client: Protocol = "openai_chat" if upstream == "anthropic" else "anthropic"
    content = audio if client == "openai_chat" else upload
    with pytest.raises(BadRequest) as refused:
        ask(asking(client, user("hi"), assistant("yes?"), [{"role": "user", "content": content}]), client, upstream)
    assert refused.value.param == "messages[2].content[0]"


# ── All of it at once ────────────────────────────────────────────────────────────────────────────

IDS = st.sampled_from(["a", "b", "functions.Bash:0", "x" * 70, ""])
WORDS = st.sampled_from(["", " ", "words", "more words"])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), WORDS),
    st.tuples(st.just("calls"), st.lists(IDS.filter(bool), min_size=1, max_size=3)),
    st.tuples(st.just("results"), st.lists(IDS, min_size=1, max_size=3)),
)


def messages_of(client: Protocol, steps: list[tuple[str, Any]]) -> list[list[Json]]:
    turns = []
    for number, (kind, what) in enumerate(steps):
        match kind:
            case "calls":
                turns.append(calls(client, *((i, "read", {"path": f"{number}.{at}"}) for at, i in enumerate(what))))
            case "results":
                turns.append(results(client, *((i, f"result {number}.{at}") for at, i in enumerate(what))))
            case role:
                turns.append([{"role": role, "content": what}])
    return turns


@every_pair
@settings(max_examples=2 * settings().max_examples)
@given(steps=st.lists(STEPS, max_size=10))
def test_085_whatever_a_client_made_of_its_history_the_upstream_takes_it(
    client: Protocol, upstream: Protocol, steps: list[tuple[str, Any]]
) -> None:
    """The rules are in `ask`: pairs whole and in order, turns that alternate, no empty text, ids that are allowed."""
    sent = ask(offered(client, user("hi"), *messages_of(client, steps)), client, upstream)
    assert len(sent.calls) == len(sent.results)
