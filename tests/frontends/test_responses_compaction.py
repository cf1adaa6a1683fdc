"""Compaction: a summary takes the place of a conversation, which continues with any backend."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cases import leg
from tests.catalogue.serving import BACKENDS, DIALECTS, Backend, begins, says
from tests.each import each
from tests.frontends.responses_support import DEMO, Api, api, paused, text_of, user
from tests.frontends.test_responses import READ, gives, texts
from tieline.model.content import Text, Thinking, ToolCall
from tieline.model.events import Failed, StopReason
from tieline.sim.answers import failed
from tieline.sim.model import Hang, Pause

EACH_BACKEND = pytest.mark.parametrize("backend", BACKENDS)
TALK = [user("What is 6 times 7?"), {"role": "assistant", "content": "42"}, user("And 6 times 8?")]
TRIGGER = {"type": "compaction_trigger"}
SUMMARY = "They multiplied numbers."
LONG = user("word " * 2000)
RULES = [{"type": "compaction", "compact_threshold": 1000}]


@pytest.fixture
async def client() -> AsyncIterator[Api]:
    async with api() as made:
        yield made


def item_in(output: Any) -> Any:
    """The compaction item that is the whole output."""
    (item,) = output
    assert item["type"] == "compaction"
    assert item["id"].startswith("cmp_")
    return item


def pieces(messages: Any) -> list[str]:
    """The text parts that an upstream got, in any dialect."""
    contents = [message.get("content") or "" for message in messages]
    parts = [[{"text": one}] if isinstance(one, str) else one for one in contents]
    return [part["text"] for message in parts for part in message if "text" in part]


async def continues(client: Api, item: Any, *before: Any) -> None:
    """Check that a conversation with this item continues on every backend."""
    for backend in BACKENDS:
        client.stand.script(backend, says(backend, "48"))
        await client.created(backend, input=[*before, item, user("Go on.")])
        *_, summary, new = pieces(client.asked(backend))
        assert SUMMARY in summary
        assert "summary of the earlier conversation" in summary
        assert new == "Go on."


@EACH_BACKEND
async def test_r03_a_trigger_is_answered_with_exactly_one_item(client: Api, backend: Backend) -> None:
    answer = leg((Thinking(), ["Hm."]), (Text(), ["They multiplied "]), (Text(), ["numbers."]))
    client.stand.script(backend, gives(backend, answer), gives(backend, answer))
    events = await client.stream(backend, input=[*TALK, TRIGGER], tools=[READ], tool_choice="required")
    item = item_in(events.response["output"])
    assert events.done == [item]
    assert events.types == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert events.response["usage"]["total_tokens"] == 18
    assert "compaction_trigger" not in client.stand.asked(backend)[-1].body.decode()
    whole = await client.created(backend, input=[*TALK, TRIGGER])
    await continues(client, item_in(whole["output"]), user("kept"))


@EACH_BACKEND
async def test_the_endpoint_keeps_the_messages_of_the_user_and_adds_one_item(client: Api, backend: Backend) -> None:
    client.stand.script(backend, says(backend, SUMMARY))
    body: Any = {"model": f"{backend}/test-model", "input": TALK, "instructions": "Be brief."}
    reply = await client.post("/v1/responses/compact", **body)
    assert reply.status == 200
    assert set(reply.body) == {"id", "object", "created_at", "output", "usage"}
    assert reply.body["object"] == "response.compaction"
    assert reply.body["usage"]["input_tokens"] == 11
    *kept, item = reply.body["output"]
    assert [(one["type"], one["role"]) for one in kept] == [("message", "user")] * 2
    assert [one["content"] for one in kept] == [
        [{"type": "input_text", "text": "What is 6 times 7?"}],
        [{"type": "input_text", "text": "And 6 times 8?"}],
    ]
    await continues(client, item_in([item]), *kept)


async def test_of_very_long_messages_the_endpoint_keeps_the_latest(client: Api) -> None:
    client.stand.script("oai", says("oai", SUMMARY))
    long = [user(letter * 100_000) for letter in "abc"]
    reply = await client.post("/v1/responses/compact", model="oai/test-model", input=long)
    kept = reply.body["output"][:-1]
    assert [one["content"][0]["text"][:9] for one in kept] == ["bbbbbbbbb", "ccccccccc"]


async def test_the_endpoint_does_not_replace_a_conversation_by_nothing(client: Api) -> None:
    client.stand.script("oai", gives("oai", leg((Thinking(), ["Hm."]))))
    reply = await client.post("/v1/responses/compact", model="oai/test-model", input=TALK)
    assert reply.status == 502
    assert "summary" in reply.body["error"]["message"]


async def test_a_stored_conversation_is_compacted(client: Api) -> None:
    client.stand.script("oai", says("oai", "42"), says("oai", SUMMARY), says("oai", SUMMARY), says("oai", "48"))
    first = await client.created("oai", input="What is 6 times 7?")
    body = {"model": "oai/test-model", "previous_response_id": first["id"]}
    reply = await client.post("/v1/responses/compact", **body)
    kept, item = reply.body["output"]
    assert (kept["role"], kept["content"][0]["text"]) == ("user", "What is 6 times 7?")
    assert item_in([item])
    assert texts(client.asked("oai"))[:2] == ["What is 6 times 7?", "42"]
    second = await client.created("oai", input=[TRIGGER], previous_response_id=first["id"])
    third = await client.created("oai", input="And 6 times 8?", previous_response_id=second["id"])
    assert text_of(third) == "48"
    summary, new = texts(client.asked("oai"))
    assert SUMMARY in summary
    assert new == "And 6 times 8?"
    # What the summary replaces is no longer needed.
    assert (await client.delete(f"/v1/responses/{first['id']}")).status == 200
    client.stand.script("oai", says("oai", "56"))
    assert text_of(await client.created("oai", input="7?", previous_response_id=third["id"])) == "56"


async def test_results_before_a_trigger_are_summarised(client: Api) -> None:
    calls = [
        user("Read a.py"),
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"a.py"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "print(1)"},
    ]
    for backend in BACKENDS:
        client.stand.script(backend, says(backend, SUMMARY))
        assert item_in((await client.created(backend, input=[*calls, TRIGGER], tools=[READ]))["output"])


@EACH_BACKEND
async def test_a_model_without_a_summary_is_a_failure(client: Api, backend: Backend) -> None:
    client.stand.script(backend, gives(backend, leg((Thinking(), ["Hm."]))))
    response = (await client.stream(backend, input=[*TALK, TRIGGER])).response
    assert (response["status"], response["output"]) == ("failed", [])
    assert "summary" in response["error"]["message"]


async def test_a_misplaced_trigger_is_refused(client: Api) -> None:
    reply = await client.create(input=[TRIGGER, user("Hi")])
    assert (reply.status, reply.body["error"]["param"]) == (400, "input[0]")


# ── On the server's own account ──────────────────────────────────────────────────────────────────


@EACH_BACKEND
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_long_conversation_is_answered_on_its_summary(client: Api, backend: Backend, stream: bool) -> None:
    client.stand.script(backend, says(backend, SUMMARY), says(backend, "4", "8"))
    asked = {"input": [LONG, *TALK], "instructions": "Be brief.", "context_management": RULES, "max_output_tokens": 50}
    if stream:
        events = await client.stream(backend, **asked)
        assert events.done == events.response["output"]
        assert events.types.count("response.output_text.delta") == 2
        response = events.response
    else:
        response = await client.created(backend, **asked)
    compaction, message = response["output"]
    assert compaction["type"] == "compaction"
    assert message["content"][0]["text"] == "48"
    assert response["usage"]["total_tokens"] == 36
    summary, new = pieces(client.asked(backend))[-2:]
    assert SUMMARY in summary
    assert new == "And 6 times 8?"
    body = client.stand.asked(backend)[-1].body.decode()
    assert "Be brief." in body
    assert "word word" not in body
    assert "context_management" not in body
    client.stand.script(backend, says(backend, "54"))
    await client.created(backend, input="And 9?", previous_response_id=response["id"])
    assert pieces(client.asked(backend))[-2:] == ["48", "And 9?"]
    assert "word word" not in client.stand.asked(backend)[-1].body.decode()


async def test_a_short_conversation_is_not_compacted(client: Api) -> None:
    client.stand.script("oai", says("oai", "48"))
    reply = await client.create("oai", input=TALK, context_management=RULES)
    assert reply.text == "48"
    assert [item["type"] for item in reply.body["output"]] == ["message"]
    assert "x-tieline-dropped" not in reply.headers


async def test_open_calls_stay_with_their_results(client: Api) -> None:
    items = [
        LONG,
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"a.py"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "print(1)"},
    ]
    called = leg((ToolCall(id="call_2", name="read_file"), ['{"path":"b.py"}']), reason=StopReason.TOOL_USE)
    client.stand.script("ant", says("ant", SUMMARY), gives("ant", called))
    response = await client.created("ant", input=items, tools=[READ], context_management=RULES)
    assert [item["type"] for item in response["output"]] == ["compaction", "function_call"]
    kinds = [[block["type"] for block in message["content"]] for message in client.asked("ant")]
    assert kinds == [["text"], ["tool_use"], ["tool_result"]]


async def test_without_a_summary_the_whole_conversation_is_answered(client: Api) -> None:
    refusal = failed(DIALECTS["oai"], Failed(kind="upstream", message="No.", status=500))
    client.stand.script("oai", refusal, says("oai", "48"))
    response = await client.created("oai", input=[LONG, *TALK], context_management=RULES)
    assert text_of(response) == "48"
    assert [item["type"] for item in response["output"]] == ["message"]
    assert len(client.asked("oai")) == 4


async def test_a_client_that_leaves_ends_the_summary(client: Api) -> None:
    client.stand.script("oai", begins("oai", Hang()))
    body: Any = {"model": "oai/test-model", "input": [LONG], "context_management": RULES}
    asking = asyncio.create_task(client.post("/v1/responses", **body))
    await client.stand.arrival("oai")
    asking.cancel()
    await client.stand.gone("oai")


async def test_the_background_and_the_socket_compact_too(client: Api) -> None:
    client.stand.script("oai", says("oai", SUMMARY), says("oai", "48"), says("oai", SUMMARY), says("oai", "48"))
    asked = {"input": [LONG, *TALK], "context_management": RULES}
    begun = await client.created("oai", background=True, **asked)
    kinds = [item["type"] for item in (await client.follow(begun["id"])).response["output"]]
    async with client.socket() as socket:
        response = (await socket.ask("oai", store=False, **asked)).response
        assert [item["type"] for item in response["output"]] == kinds == ["compaction", "message"]
        client.stand.script("oai", says("oai", "54"))
        await socket.ask("oai", input="And 9?", store=False, previous_response_id=response["id"])
        assert len(client.asked("oai")) == 3


@each(
    ("rules", "param"),
    [
        (5, "context_management"),
        ([5], "context_management[0]"),
        ([{"type": "compaction", "compact_threshold": "many"}], "context_management[0].compact_threshold"),
    ],
)
async def test_wrong_rules_are_refused(client: Api, rules: Any, param: str) -> None:
    assert (await client.create(context_management=rules)).error[::2] == (400, param)


async def test_a_summary_gets_keep_alives_like_any_response() -> None:
    async with api(server={"keep_alive": 0.02}) as client, client.socket() as socket:
        pause = Pause()
        client.stand.script("oai", paused("oai", pause), says("oai", "48"))
        await socket.send("oai", input=[LONG, *TALK], context_management=RULES, store=False)
        begun = [(await socket.event())["type"] for _ in range(3)]
        assert begun == ["response.created", "response.in_progress", "response.in_progress"]
        pause.set()
        events = await socket.answer()
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction", "message"]


async def test_a_demo_conversation_is_compacted(client: Api) -> None:
    reply = await client.post("/v1/responses/compact", model=DEMO, input=TALK)
    assert item_in(reply.body["output"][-1:])
