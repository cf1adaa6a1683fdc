"""Scripted runs of the simulated service: every exec and query, every error, every kind of ending."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from tests.each import each
from tests.sim.cursor_client import (
    TRANSPORTS,
    WAIT,
    H2Call,
    Message,
    Obedient,
    Transport,
    calling,
    closed,
    mcp_result,
    offering,
    run_request,
    tool,
)
from tieline.sim.cursor import NAMED, BadScript, CursorSim, End, ServerTurn, SimSettings, Step, Wait, program
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2, queries_pb2
from tieline.wire.cursor.errors import read_end

TURN_ENDED = {"turn_ended": {"inputTokens": "10", "outputTokens": "2"}}

EXECS: tuple[dict[str, Any], ...] = (
    {"shellArgs": {"command": "ls", "parsingResult": {"parsingFailed": True}}},
    {"shellStreamArgs": {"command": "ls"}},
    {"readArgs": {"path": "a.txt"}},
    {"writeArgs": {"path": "a.txt", "fileText": "x"}},
    {"deleteArgs": {"path": "a.txt"}},
    {"lsArgs": {"path": "."}},
    {"grepArgs": {"pattern": "x", "outputMode": "count"}},
    {"diagnosticsArgs": {"path": "a.txt"}},
    {"mcpArgs": {"name": "mine-add", "args": {"a": 1}, "providerIdentifier": "mine", "toolName": "add"}},
    {"listMcpResourcesExecArgs": {}},
    {"readMcpResourceExecArgs": {"server": "mine", "uri": "x:y"}},
    {"fetchArgs": {"url": "http://127.0.0.1:1/"}},
    {"backgroundShellSpawnArgs": {"command": "sleep 1"}},
    {"writeShellStdinArgs": {"shellId": 1, "chars": "y"}},
    {"recordScreenArgs": {}},
    {"computerUseArgs": {}},
    {"executeHookArgs": {}},
    {"subagentArgs": {"prompt": "p"}},
    {"mcpStateExecArgs": {}},
    {"unknown": 99},
)
QUERIES: tuple[dict[str, Any], ...] = (
    {"webSearchRequestQuery": {"args": {"searchTerm": "salt"}}},
    {"askQuestionInteractionQuery": {"args": {"title": "Which?"}}},
    {"switchModeRequestQuery": {"args": {"targetModeId": "plan"}}},
    {"createPlanRequestQuery": {"args": {"plan": "1. salt"}}},
    {"setupVmEnvironmentArgs": {}},
    {"webFetchRequestQuery": {"args": {"url": "http://127.0.0.1:1/"}}},
    {"mcpAuthRequestQuery": {"args": {"serverIdentifier": "x"}}},
    {"unknown": 99},
)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_kind_of_exec_can_be_asked_and_a_throw_answers_it(transport: Transport) -> None:
    steps = [*({"exec": kind} for kind in EXECS), {"wait": "exec"}, {"text": "done"}, TURN_ENDED, "end"]
    async with CursorSim() as sim, calling(sim, transport) as call:
        sim.scripts.queue(steps)
        await call.send(run_request("go"))
        asked = [(await call.until("exec_server_message")).exec_server_message for _ in EXECS]
        assert [one.id for one in asked] == list(range(1, len(EXECS) + 1))
        names = [one.WhichOneof("message") for one in asked]
        assert len(set(names)) == len(EXECS)
        assert names[-1] is None
        for one in asked:
            thrown = exec_pb2.ExecClientThrow(id=one.id, error="no")
            await call.send(Message(exec_client_control_message=exec_pb2.ExecClientControlMessage(throw=thrown)))
        assert (await call.until("text_delta")).interaction_update.text_delta.text == "done"


async def test_a_shell_stream_is_answered_when_it_exits_not_when_it_starts() -> None:
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim, calling(sim, "h2") as call:
        sim.scripts.queue([{"exec": {"id": 0, "shellStreamArgs": {"command": "ls"}}}, {"wait": 0}, {"text": "done"}])
        await call.send(run_request("go"))
        await call.until("exec_server_message")
        for event in (kinds.ShellStream(start=kinds.ShellStreamStart()), kinds.ShellStream(stdout={"data": "a.txt"})):
            await call.send(Message(exec_client_message=exec_pb2.ExecClientMessage(shell_stream=event)))
        for _ in range(5):
            assert (await call.message()).interaction_update.HasField("heartbeat")
        ended = kinds.ShellStream(exit=kinds.ShellStreamExit(code=3))
        await call.send(Message(exec_client_message=exec_pb2.ExecClientMessage(shell_stream=ended)))
        await call.until("text_delta")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_query_can_be_asked_and_is_waited_for(transport: Transport) -> None:
    steps = [*({"query": kind} for kind in QUERIES), {"wait": "query"}, {"text": "done"}, TURN_ENDED, "end"]
    async with CursorSim() as sim, calling(sim, transport) as call:
        sim.scripts.queue(steps)
        await call.send(run_request("go"))
        asked = [(await call.until("interaction_query")).interaction_query for _ in QUERIES]
        assert len({one.WhichOneof("query") for one in asked}) == len(QUERIES)
        for one in asked:
            await call.send(Message(interaction_response=queries_pb2.InteractionResponse(id=one.id)))
        await call.until("turn_ended")


REFUSALS = {
    "bad_model": ("not_found", "model_not_found"),
    "bad_tools": ("resource_exhausted", "cursor_bad_tools"),
    "blob": ("internal", "cursor_blob_missing"),
    "data_missing": ("internal", "cursor_blob_missing"),
    "deprecated": ("unimplemented", "cursor_deprecated"),
    "empty_value": ("internal", "cursor_bad_tools"),
    "exhausted": ("resource_exhausted", "cursor_poisoned"),
    "image": ("internal", "cursor_blob_missing"),
    "max_mode": ("failed_precondition", "cursor_max_mode_required"),
    "model_blocked": ("permission_denied", "cursor_model_blocked"),
    "no_state": ("invalid_argument", "cursor_invalid_argument"),
    "outdated": ("resource_exhausted", "cursor_outdated_client"),
    "pro_quota": ("resource_exhausted", "cursor_quota"),
    "provider": ("unavailable", "cursor_provider_error"),
    "provider_for_good": ("unavailable", "cursor_refused"),
    "quota": ("resource_exhausted", "cursor_quota"),
    "rate_limited": ("resource_exhausted", "cursor_rate_limited"),
    "region": ("permission_denied", "cursor_region"),
    "suspicious": ("unauthenticated", "cursor_blocked"),
    "too_long": ("resource_exhausted", "context_length_exceeded"),
    # A code of Connect alone stands for itself.
    "aborted": ("aborted", "cursor_internal"),
    "already_exists": ("already_exists", "cursor_internal"),
    "canceled": ("canceled", "cursor_internal"),
    "data_loss": ("data_loss", "cursor_internal"),
    "deadline_exceeded": ("deadline_exceeded", "cursor_timeout"),
    "failed_precondition": ("failed_precondition", "cursor_invalid_argument"),
    "internal": ("internal", "cursor_internal"),
    "invalid_argument": ("invalid_argument", "cursor_invalid_argument"),
    "not_found": ("not_found", "cursor_not_found"),
    "out_of_range": ("out_of_range", "cursor_invalid_argument"),
    "permission_denied": ("permission_denied", "cursor_forbidden"),
    "resource_exhausted": ("resource_exhausted", "cursor_exhausted"),
    "unauthenticated": ("unauthenticated", "cursor_unauthenticated"),
    "unavailable": ("unavailable", "cursor_unavailable"),
    "unimplemented": ("unimplemented", "cursor_internal"),
    "unknown": ("unknown", "cursor_internal"),
}
"""The errors that a script can name: the code they end a stream with, and what the client side makes of them."""


def test_every_error_that_a_script_can_name_is_tried() -> None:
    assert set(NAMED) == set(REFUSALS)


@each("name", REFUSALS)
async def test_every_error_can_end_a_run_and_the_client_side_understands_it(name: str) -> None:
    code, meant = REFUSALS[name]
    async with CursorSim() as sim, calling(sim, "h2") as call:
        client = Obedient(call)
        await client.turn(run_request(f'!cursor {{"steps": [{{"error": "{name}"}}]}}'))
        assert client.end is not None
        assert msgspec.json.decode(client.end.payload)["error"]["code"] == code
        understood = read_end(client.end.payload)
        assert understood is not None
        assert understood.code == meant
        assert sim.journal[-1].ending == f"refused: {code}"


@each("transport", TRANSPORTS)
@each("status", [401, 415, 429, 464, 503])
async def test_any_status_can_stand_instead_of_a_stream(transport: Transport, status: int) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        sim.scripts.queue([{"status": {"code": status, "body": "no", "headers": {"retry-after": "7"}}}])
        await call.send(run_request("go"))
        # What comes is no frame.
        assert await call.frame() is None
        assert (call.status, call.headers["retry-after"]) == (status, "7")


@each("transport", TRANSPORTS)
@each(
    ("ending", "last"),
    [
        ([{"leave": "eof"}], None),
        ([{"frame": {"flags": 2, "hex": ""}}, {"leave": "eof"}], (2, b"")),
        (["end"], (2, b"{}")),
        ([{"frame": {"flags": 128, "hex": b"grpc-status: 8\r\n".hex()}}], (128, b"grpc-status: 8\r\n")),
        ([{"error": {"code": "unavailable", "message": "try again"}}], (2, b"unavailable")),
    ],
    ids=["eof", "empty", "good", "trailers", "error"],
)
async def test_a_stream_can_end_in_every_way_after_or_without_the_end_of_the_turn(
    transport: Transport, ending: Sequence[Any], last: tuple[int, bytes] | None
) -> None:
    async with CursorSim() as sim:
        for before in ([], [TURN_ENDED]):
            async with calling(sim, transport) as call:
                sim.scripts.queue([{"text": "so "}, {"text": "far"}, *before, *ending])
                client = Obedient(call)
                assert await client.turn(run_request("go")) == "so far"
                assert (client.usage is not None) == bool(before)
                assert (client.end is None) == (last is None)
                if client.end is not None and last is not None:
                    assert client.end.flags == last[0]
                    assert last[1] in client.end.payload


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_a_stream_can_break_off_in_the_middle_of_a_frame(transport: Transport, how: str) -> None:
    async with CursorSim() as sim, calling(sim, transport) as call:
        sim.scripts.queue([{"text": "so far"}, {"raw": "00000000ff0a"}, {"wait": "all"}, {"leave": how}])
        await call.send(run_request("go"))
        if how == "cut":
            assert (await call.until("text_delta")).interaction_update.text_delta.text == "so far"
        with pytest.raises(ConnectionError):
            await call.until("turn_ended")
        async with asyncio.timeout(WAIT):
            await sim.until(lambda: sim.journal[-1].ending == how)


async def test_a_connection_can_be_told_to_go_away_while_its_stream_goes_on() -> None:
    async with CursorSim() as sim, calling(sim, "h2") as call:
        assert isinstance(call, H2Call)
        sim.scripts.queue([TURN_ENDED, {"goaway": 0}, "hold"])
        await call.send(run_request("go"))
        await call.until("turn_ended")
        async with asyncio.timeout(WAIT):
            await call.connection.told_to_go.wait()
        assert sim.open_runs == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("hold", ["hold", {"hold": "silent"}], ids=["heartbeats", "silence"])
async def test_a_stream_can_be_held_open_after_the_turn(transport: Transport, hold: Any) -> None:
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim:
        async with calling(sim, transport) as call:
            sim.scripts.queue([TURN_ENDED, hold])
            await call.send(run_request("go"))
            await call.until("turn_ended")
            if hold == "hold":
                for _ in range(5):
                    assert (await call.message()).interaction_update.HasField("heartbeat")
            assert sim.open_runs == 1
        async with asyncio.timeout(WAIT):
            await sim.until(lambda: sim.journal[-1].ending == "left")


async def test_a_run_can_stall_after_a_tool_result_with_its_text_in_a_blob_only() -> None:
    def stall(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.opening()
        message = exec_pb2.ExecServerMessage(mcp_args=kinds.McpArgs(name="mine-add"))
        yield turn.run.ask_exec(message)
        yield Wait(lambda: turn.run.is_answered(message.id))
        yield from turn.store(b'{"role":"assistant","content":[{"type":"text","text":"<think>hm</think>42"}]}')
        yield Wait(lambda: False)

    async with CursorSim(SimSettings(heartbeat=0.01), script=stall) as sim, calling(sim, "h1") as call:
        client = Obedient(call, lambda *_: "42")
        await call.send(run_request("add"))
        while not any(b"42" in data for data in client.blobs.values()):
            await client.hear(await call.message())
        for _ in range(10):
            assert (await call.message()).interaction_update.HasField("heartbeat")
        assert client.text == ""


async def test_a_parallel_exec_can_come_late() -> None:
    words = (
        '!cursor {"steps": ["open", {"exec": {"id": 7, "mcpArgs": {"name": "a"}}}, {"exec": {"id": 8, "mcpArgs":'
        ' {"name": "b"}}}, {"wait": 7}, {"exec": {"id": 9, "mcpArgs": {"name": "c"}}}, {"wait": "exec"}, "close"]}'
    )
    async with CursorSim() as sim, calling(sim, "h1") as call:
        client = Obedient(call)
        await call.send(run_request(words))
        while len(client.execs) < 3:
            await client.hear(await call.message())
        assert [one.id for one in client.execs] == [1, 7, 8]
        await call.send(mcp_result(7, "a"))
        while len(client.execs) < 4:
            await client.hear(await call.message())
        await call.send(mcp_result(8, "b"))
        await call.send(closed(9))
        await client.listen()
        assert client.end is not None
        assert client.end.payload == b"{}"


async def test_an_exec_can_be_aborted() -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        sim.scripts.queue([{"exec": {"id": 3, "shellStreamArgs": {"command": "sleep 9"}}}, {"abort": 3}, "end"])
        await call.send(run_request("go"))
        assert (await call.until("exec_server_control_message")).exec_server_control_message.abort.id == 3


async def test_a_poisoned_conversation_is_refused_until_it_has_another_id() -> None:
    words = '!cursor {"poison": true, "words": "say hello"}'
    async with CursorSim() as sim:
        seen = []
        for conversation_id in ("a", "a", "b", "a"):
            async with calling(sim, "h1") as call:
                client = Obedient(call)
                seen.append(await client.turn(run_request(words, conversation_id=conversation_id)))
        assert seen == ["", "", "hello", ""]
        sim.scripts.poison("c")
        async with calling(sim, "h1") as call:
            client = Obedient(call)
            await client.turn(run_request("say hello", conversation_id="c"))
            assert client.end is not None
            assert client.end.payload == b'{"error":{"code":"resource_exhausted","message":"Error"}}'


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_runs_can_differ_and_a_run_that_is_resumed_knows_its_script_by_the_history(transport: Transport) -> None:
    words = (
        '!cursor {"runs": [["open", {"text": "part one "}, "checkpoint", {"leave": "cut"}],'
        ' ["open", {"text": "part two"}, "close"]]}'
    )
    async with CursorSim() as sim:
        async with calling(sim, transport) as call:
            first = Obedient(call)
            with pytest.raises(ConnectionError):
                await first.turn(run_request(words))
        async with calling(sim, transport) as call:
            second = Obedient(call)
            second.blobs = first.blobs
            await second.turn(run_request(state=first.checkpoints[-1].SerializeToString()))
        assert first.text + second.text == "part one part two"
        async with calling(sim, transport) as call:
            assert "demo model" in await Obedient(call).turn(run_request(words))


async def test_a_client_without_tools_can_be_asked_to_do_natively_what_the_words_say() -> None:
    words = '!cursor {"native": true, "words": "read a.txt, then run: ls"}'
    async with CursorSim() as sim, calling(sim, "h1") as call:
        client = Obedient(call)
        await call.send(run_request(words))
        while not client.checkpoints:
            await client.hear(await call.message())
        asked = client.execs[-1]
        assert asked.read_args.path == "a.txt"
        read = kinds.ReadResult(success=kinds.ReadSuccess(path="a.txt", content="salt"))
        await call.send(Message(exec_client_message=exec_pb2.ExecClientMessage(id=asked.id, read_result=read)))
        while len(client.checkpoints) < 2:
            await client.hear(await call.message())
        asked = client.execs[-1]
        assert asked.shell_stream_args.command == "ls"
        for event in (kinds.ShellStream(stdout={"data": "b.txt"}), kinds.ShellStream(exit={"code": 0})):
            result = exec_pb2.ExecClientMessage(id=asked.id, shell_stream=event)
            await call.send(Message(exec_client_message=result))
        await client.listen()
        assert "salt" in client.text
        assert "b.txt" in client.text


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("{", "the script is invalid"),
        ('{"steps": [{"dance": 1}]}', "there is no step 'dance'"),
        ('{"steps": [1]}', "expected a name or an object"),
        ('{"steps": [{"exec": {"nope": 1}}]}', "the step 'exec' is invalid"),
        ('{"steps": [{"error": "nope"}]}', "the step 'error' is invalid"),
        ('{"steps": [{"wait": "godot"}]}', "found 'godot'"),
        ('{"stops": []}', "the script is invalid"),
        ('{"style": {"gzip": 7}}', "style"),
    ],
)
async def test_a_script_that_makes_no_sense_is_refused_with_the_reason(script: str, complaint: str) -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        client = Obedient(call)
        await client.turn(run_request(f"!cursor {script}"))
        assert client.end is not None
        error = msgspec.json.decode(client.end.payload)["error"]
        assert error["code"] == "invalid_argument"
        assert complaint in error["message"]


def test_a_bad_script_is_found_when_it_is_made() -> None:
    with pytest.raises(BadScript, match="dance"):
        program(["open", "dance"])


async def test_steps_that_are_values_and_programs_may_stand_in_a_script() -> None:
    async with (
        CursorSim(script=[ServerTurn.opening, {"text": "a"}, End(NAMED["outdated"])]) as sim,
        calling(sim, "h1") as call,
    ):
        client = Obedient(call)
        assert await client.turn(run_request("go")) == "a"
        assert client.end is not None
        assert b"Update Required" in client.end.payload


async def test_a_failure_of_the_demo_model_ends_the_run_with_its_kind() -> None:
    words = "```tieline\ntext: Well\nerror: overloaded too many\n```"
    async with CursorSim() as sim, calling(sim, "h1") as call:
        client = Obedient(call)
        assert await client.turn(run_request(words)) == "Well"
        assert client.end is not None
        assert msgspec.json.decode(client.end.payload)["error"] == {"code": "unavailable", "message": "too many"}


async def test_the_journal_keeps_what_a_client_said() -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        client = Obedient(call, lambda *_: "3")
        await call.send(run_request("call add with a=1 b=2", mcp_tools=offering(tool("add", a="number", b="number"))))
        await call.send(Message(client_heartbeat=agent.ClientHeartbeat()))
        await client.listen()
        record = sim.journal[-1]
        assert record.received[0].run_request.conversation_id == "conversation-1"
        assert record.kinds[:2] == ["run_request", "client_heartbeat"]
        assert record.kinds.count("exec_client_message") == record.kinds.count("exec_client_control_message") == 2
        assert record.head.path.endswith("/RunSSE")
