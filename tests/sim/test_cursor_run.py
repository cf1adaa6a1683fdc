"""Whole turns of the simulated service, on both transports: what a client must do, and what it gets for it."""

import asyncio
from hashlib import sha256

import msgspec
import pytest

from tests.sim.cursor_client import (
    TRANSPORTS,
    WAIT,
    Message,
    Obedient,
    Transport,
    acknowledged,
    calling,
    closed,
    mcp_result,
    offering,
    run_request,
    tool,
)
from tieline.sim.cursor import CursorSim, SimSettings
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.cursor.protobuf_json import to_value as _value

pytestmark = pytest.mark.parametrize("transport", TRANSPORTS)

WEATHER = tool("get_weather", city="string")
PNG = b"\x89PNG and the rest of it"


async def test_a_text_turn_streams_ends_its_turn_and_then_its_stream(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        assert await client.turn(run_request("say hello there")) == "hello there"
        assert call.status == 200
        assert call.headers["content-type"] == "application/connect+proto"
        assert client.end is not None
        assert (client.end.flags, client.end.payload) == (2, b"{}")
        assert client.updates.count("text_delta") == client.updates.count("token_delta") == 2
        assert client.updates[-1] == "turn_ended"
        assert client.usage.input_tokens > 0
        assert client.usage.output_tokens == 2
        await sim.until(lambda: sim.journal[-1].ending == "ended")
        assert (sim.runs, sim.legs, sim.open_runs) == (1, 1, 0)


async def test_a_tool_turn_is_one_run_however_many_rounds_it_takes(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call, lambda name, given: f"{name} says {given}")
        words = "call get_weather with Oslo, then call get_weather with Rome"
        await client.turn(run_request(words, mcp_tools=offering(WEATHER)))
        assert 'get_weather says {"city":"Oslo"}' in client.text
        assert 'get_weather says {"city":"Rome"}' in client.text
        assert (sim.runs, sim.legs) == (1, 3)
        calls = [one.mcp_args for one in client.execs if one.HasField("mcp_args")]
        assert [(one.name, one.provider_identifier, one.tool_name) for one in calls] == [
            ("mine-get_weather", "mine", "get_weather")
        ] * 2
        started = client.updates.index("tool_call_started")
        assert client.updates.index("partial_tool_call") < started < client.updates.index("tool_call_completed")


async def test_arguments_stream_as_all_there_is_so_far(transport: Transport) -> None:
    """Spec: args_text_delta is cumulative, whatever its name says."""
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call, lambda *_: "sunny")
        await client.turn(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
        assert client.arguments[-1] == '{"city":"Oslo"}'
        assert all(
            later.startswith(earlier) for earlier, later in zip(client.arguments, client.arguments[1:], strict=False)
        )


async def test_parallel_execs_all_come_before_any_result_is_waited_for_and_a_checkpoint_with_them(
    transport: Transport,
) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        words = "call get_weather with Oslo and call get_weather with Rome and call get_weather with Kyiv"
        await call.send(run_request(words, mcp_tools=offering(WEATHER)))
        while not client.checkpoints:
            await client.hear(await call.message())
        asked = [one.id for one in client.execs if one.HasField("mcp_args")]
        assert len(asked) == 3
        assert len(client.checkpoints[-1].pending_tool_calls) == 3
        for number in reversed(asked):
            await call.send(mcp_result(number, f"weather {number}"))
        await client.listen()
        found = [client.text.index(f"weather {number}") for number in asked]
        assert found == sorted(found)


async def test_a_result_counts_without_a_stream_close(transport: Transport) -> None:
    """Seen with a public client that never sends one."""
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call, lambda *_: "sunny")
        client.closes_streams = False
        await client.turn(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
        assert "sunny" in client.text


async def test_nothing_goes_on_before_a_blob_is_acknowledged(transport: Transport) -> None:
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim, calling(sim, transport) as call:
        await call.send(_with_context("say hello"))
        sets = [(await call.until("kv_server_message")).kv_server_message for _ in range(2)]
        for _ in range(5):
            assert (await call.message()).interaction_update.WhichOneof("message") == "heartbeat"
        await call.send(acknowledged(sets[0].id))
        for _ in range(5):
            assert (await call.message()).interaction_update.WhichOneof("message") == "heartbeat"
        await call.send(acknowledged(sets[1].id))
        assert (await call.until("text_delta")).interaction_update.text_delta.text == "hello"
        assert all(one.set_blob_args.blob_id == sha256(one.set_blob_args.blob_data).digest() for one in sets)


async def test_a_client_that_never_tells_its_context_is_answered_all_the_same(transport: Transport) -> None:
    settings = SimSettings(context_patience=0.05, heartbeat=0.01)
    async with CursorSim(settings) as sim, calling(sim, transport) as call:
        await call.send(run_request("say hello"))
        assert (await call.until("exec_server_message")).exec_server_message.HasField("request_context_args")
        assert (await call.until("kv_server_message")).kv_server_message.HasField("set_blob_args")


async def test_a_context_in_the_action_is_not_asked_for(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        assert await client.turn(_with_context("say hello")) == "hello"
        assert client.execs == []


async def test_rules_reach_the_model_by_the_request_context(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        client.context.cloud_rule = "You are a title generator."
        assert await client.turn(run_request("the history of salt")) == "The history of salt"


async def test_the_next_turn_hands_the_checkpoint_back_and_the_history_comes_from_blobs(transport: Transport) -> None:
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            first = Obedient(call, lambda *_: "sunny")
            await first.turn(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
        async with calling(sim, transport) as call:
            second = Obedient(call)
            second.blobs = first.blobs
            state = first.checkpoints[-1]
            await second.turn(run_request("say goodbye", state=state.SerializeToString()))
        assert second.text == "goodbye"
        before = list(state.root_prompt_messages_json)
        after = list(second.checkpoints[-1].root_prompt_messages_json)
        assert after[: len(before)] == before
        roles = [msgspec.json.decode(second.blobs[key])["role"] for key in after]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
        assert sim.runs == 2


async def test_a_run_that_broke_off_is_resumed_from_its_checkpoint_and_makes_its_calls_again(
    transport: Transport,
) -> None:
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            first = Obedient(call)
            await call.send(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
            while not first.checkpoints:
                await first.hear(await call.message())
        async with calling(sim, transport) as call:
            second = Obedient(call, lambda *_: "sunny")
            second.blobs = first.blobs
            state = first.checkpoints[-1].SerializeToString()
            await second.turn(run_request(state=state, mcp_tools=offering(WEATHER)))
        assert "sunny" in second.text
        assert sum(one.HasField("mcp_args") for one in second.execs) == 1


async def test_a_whole_answer_is_not_said_again_when_it_is_resumed(transport: Transport) -> None:
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            first = Obedient(call)
            await first.turn(run_request("say hello"))
        async with calling(sim, transport) as call:
            second = Obedient(call)
            second.blobs = first.blobs
            await second.turn(run_request(state=first.checkpoints[-1].SerializeToString()))
        assert second.text == ""
        assert second.updates[-1] == "turn_ended"


async def test_a_rebuilt_history_with_a_tool_result_goes_on_from_there(transport: Transport) -> None:
    messages = (
        {"role": "user", "content": "call get_weather with Oslo"},
        {"role": "assistant", "content": [_tool_call("t1", "mcp_mine_get_weather", {"city": "Oslo"})]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t1", "toolName": "x", "result": "rain"}]},
    )
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await client.turn(run_request(state=_stored(client, *messages), mcp_tools=offering(WEATHER)))
        assert client.text == "`get_weather` returned: rain"
        assert sim.legs == 1


async def test_a_blob_may_come_with_the_request_instead_of_being_asked_for(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        state = _stored(client, {"role": "user", "content": "call get_weather with Oslo"})
        blobs = [agent.PreFetchedBlob(id=key, value=data) for key, data in client.blobs.items()]
        client.blobs = {}
        assert await client.turn(run_request("say hello", state=state, pre_fetched_blobs=blobs)) == "hello"


async def test_a_missing_blob_ends_the_run(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        state = _stored(client, {"role": "user", "content": "hello"})
        client.blobs.clear()
        await client.turn(run_request("say hello", state=state))
        assert _error(client) == ("internal", "Blob not found")


async def test_a_request_without_a_conversation_state_is_refused(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await client.turn(run_request("say hello", state=None))
        assert _error(client) == ("invalid_argument", "Conversation state is required")


async def test_an_unknown_model_is_refused(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await client.turn(run_request("say hello", requested_model=shared.RequestedModel(model_id="nope")))
        assert _error(client)[0] == "not_found"


@pytest.mark.parametrize(
    ("named", "schema", "code"),
    [
        ("Task", {"type": "object"}, "resource_exhausted"),
        ("pick", {"oneOf": [{"type": "object"}]}, "resource_exhausted"),
        ("hole", None, "internal"),
    ],
)
async def test_tools_that_the_service_cannot_take_are_refused(
    transport: Transport, named: str, schema: dict[str, object] | None, code: str
) -> None:
    """Spec: reserved names, alternatives at the top of a schema, and a value that is not even null."""
    refused = tool(named)
    refused.input_schema.Clear()
    if schema is None:
        refused.input_schema.SetInParent()
    else:
        refused.input_schema.CopyFrom(_value(schema))
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await client.turn(run_request("say hello", mcp_tools=offering(refused)))
        assert _error(client)[0] == code


async def test_images_are_seen_and_a_missing_one_ends_the_run(transport: Transport) -> None:
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            request = run_request("say hello")
            images = request.run_request.action.user_message_action.user_message.selected_context.selected_images
            images.append(shared.SelectedImage(data=PNG, mime_type="image/png"))
            assert await Obedient(call).turn(request) == "I see 1 image. hello"
        async with calling(sim, transport) as call:
            images[0].blob_id = b"x" * 32
            client = Obedient(call)
            await client.turn(request)
            assert _error(client) == ("internal", "Image not found")


async def test_parameters_make_the_model_think(transport: Transport) -> None:
    parameter = shared.RequestedModel.ModelParameterValue(id="effort", value="high")
    model = shared.RequestedModel(model_id="demo", parameters=[parameter])
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        assert await client.turn(run_request("say hello", requested_model=model)) == "hello"
        assert client.thinking.startswith("The user says")
        assert "thinking_completed" in client.updates
        assert client.usage.reasoning_tokens > 0


async def test_words_put_in_during_a_turn_are_heard_and_reported(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await call.send(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
        while not client.checkpoints:
            await client.hear(await call.message())
        said = conversation.UserContextInjection(user_message=conversation.UserMessage(text="say stop"))
        injection = conversation.InjectContextAction(injection_id="i1", user_context=said)
        action = conversation.ConversationAction(inject_context_action=injection)
        await call.send(Message(conversation_action=action))
        await call.send(mcp_result(client.execs[-1].id, "sunny"))
        await client.listen()
        assert client.text.endswith("stop")
        assert client.updates.count("context_injection_state") == 2
        assert sim.runs == 1


async def test_a_cancelled_run_ends(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await call.send(run_request("call get_weather with Oslo", mcp_tools=offering(WEATHER)))
        while not client.checkpoints:
            await client.hear(await call.message())
        cancel = conversation.ConversationAction(cancel_action=conversation.CancelAction())
        await call.send(Message(conversation_action=cancel))
        await client.listen()
        assert _error(client)[0] == "canceled"


async def test_a_client_that_leaves_ends_its_run(transport: Transport) -> None:
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            await call.send(_with_context("say hello"))
            await call.until("kv_server_message")
            assert sim.open_runs == 1
        async with asyncio.timeout(WAIT):
            await sim.until(lambda: sim.journal[-1].ending == "left")


async def test_results_and_messages_nobody_asked_for_do_no_harm(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        await call.send(run_request("say hello"))
        await call.send(mcp_result(77, "what?"))
        await call.send(closed(78))
        await call.send(acknowledged(79))
        await call.send(run_request("say something else"))
        await call.send(Message(client_heartbeat=agent.ClientHeartbeat()))
        client = Obedient(call)
        await client.listen()
        assert client.text == "hello"


async def test_a_message_that_is_none_ends_the_run(transport: Transport) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        await call.send(run_request("say hello"))
        await call.until("exec_server_message")
        await call.send(_Garbage())  # type: ignore[arg-type]  # that is the point
        client = Obedient(call)
        await client.listen()
        assert _error(client)[0] == "invalid_argument"


class _Garbage:
    def SerializeToString(self) -> bytes:  # noqa: N802 - it stands in for a message
        return b"\xff\xff\xff"


def _with_context(words: str) -> Message:
    request = run_request(words)
    request.run_request.action.user_message_action.request_context.CopyFrom(context.RequestContext())
    return request


def _tool_call(call_id: str, name: str, given: object) -> dict[str, object]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "args": given}


def _stored(client: Obedient, *messages: object) -> bytes:
    """A state whose history the client keeps."""
    blobs = [msgspec.json.encode(message) for message in messages]
    client.blobs |= {sha256(data).digest(): data for data in blobs}
    ids = [sha256(data).digest() for data in blobs]
    return conversation.ConversationStateStructure(root_prompt_messages_json=ids).SerializeToString()


def _error(client: Obedient) -> tuple[str, str]:
    assert client.end is not None
    assert client.end.flags == 2
    error = msgspec.json.decode(client.end.payload)["error"]
    return error["code"], error["message"]
