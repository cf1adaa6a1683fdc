"""The client's own tools offered to an agent through MCP: called, parked, answered; by HTTP and through a program."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.backends.acp_support import ROOT, SOON, Reply, Talk, leg, scripted, serving, tool, until, user
from tests.backends.agents.mcp_client import connected
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.tool_bridge import StdioShim, ToolBridge, ToolEndpoint, named_tools
from tieline.model.content import Image, Message, Text, ToolCall, ToolResult
from tieline.model.ports import Run
from tieline.model.request import Request, ToolChoice, ToolSpec
from tieline.wire.acp.facts import Abilities
from tieline.wire.acp.schema import McpHttp, McpStdio

LOOK = tool("look.up", b'{"properties":{"word":{"type":"string"}},"required":["word"]}')
COUNT = tool("count")


def results(calls: list[ToolCall], *texts: str) -> list[ToolResult]:
    return [ToolResult(call_id=call.id, content=(Text(text=text),)) for call, text in zip(calls, texts, strict=True)]


async def called(backend: AcpBackend, words: str, **request: Any) -> tuple[Talk, Run, Reply]:
    """A conversation whose agent has called the client."""
    talk = Talk(backend, tools=(LOOK, COUNT), **request)
    talk.messages.append(user(words))
    run = await talk.start()
    reply = await leg(run)
    talk.heard(reply)
    return talk, run, reply


@pytest.mark.parametrize("can", ["http", ""], ids=["http", "program"])
async def test_a_call_of_the_clients_tool_ends_the_leg_and_its_result_goes_on_with_the_turn(can: str) -> None:
    async with serving(scripted("--can", can), tools=True) as backend:
        words = 'tools\ncall look_up {"word":"ship"}\nsay bye'
        _, run, reply = await called(backend, words)
        schema = {"properties": {"word": {"type": "string"}}, "required": ["word"], "type": "object"}
        listed = json.loads(reply.text)
        assert listed == {"look_up": schema, "count": {"type": "object", "properties": {}}}
        assert reply.reason == "tool_use"
        (call,) = reply.calls
        assert (call.name, call.arguments) == ("look.up", '{"word":"ship"}')
        assert run.pending == {call.id}
        assert reply.activities == [], "what the client sees as its own call is not shown twice"
        await run.answer(results([call], "a vessel"), None, "thanks")
        reply = await leg(run)
        assert reply.text == "a vessel The user says: thanks\nbye "
        assert (reply.reason, run.pending) == ("end_turn", frozenset())
        await run.aclose()


async def test_calls_made_together_come_together_and_are_answered_in_any_order() -> None:
    """Catalogue 147: to serve them one after the other would wait for ever."""
    async with serving(scripted("--can", "http"), tools=True, batch_wait=1.5) as backend:
        _, run, reply = await called(backend, 'call count {} ; look_up {"word":"a"} ; count {}')
        assert sorted(call.name for call in reply.calls) == ["count", "count", "look.up"]
        assert run.pending == {call.id for call in reply.calls}
        picture = ToolResult(call_id=reply.calls[0].id, content=(Image(media_type="image/png", data="aGk="),))
        failed = ToolResult(call_id=reply.calls[1].id, content=(Text(text="no such word"),), is_error=True)
        await run.answer([failed, picture, *results(reply.calls[2:], "7")])
        text = (await leg(run)).text
        assert sorted(text.split()) == sorted(["image", "failed", "no", "such", "word", "7"])
        await run.aclose()


async def test_a_second_round_of_calls_is_a_second_leg() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        _, run, reply = await called(backend, "call count {}\nsay more\ncall count {}\nsay bye")
        await run.answer(results(reply.calls, "1"))
        second = await leg(run)
        assert (second.text, second.reason) == ("1\nmore ", "tool_use")
        assert run.pending == {second.calls[0].id}
        await run.answer(results(second.calls, "2"))
        assert (await leg(run)).text == "2\nbye "
        await run.aclose()


async def test_a_conversation_with_calls_in_it_goes_on_in_its_session() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk, run, reply = await called(backend, "say first\ncall count {}\nsay bye")
        answer = results(reply.calls, "1")
        talk.messages.append(Message(role="user", parts=tuple(answer)))
        request = Request(model="scripted", messages=tuple(talk.messages), tools=(LOOK, COUNT))
        await run.answer(answer, request)
        talk.heard(await leg(run))
        await run.aclose()
        told = json.loads((await talk.ask("recall")).text)
        assert told == ["say first\ncall count {}\nsay bye", "recall"]


async def test_whoever_goes_on_without_the_result_cancels_what_waits_for_it() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk, run, _ = await called(backend, "call count {}")
        assert (await talk.ask("say never mind")).text == "never mind "
        assert run.pending == frozenset()
        assert len(list(backend._opener.sessions)) == 1
        await run.aclose()


async def test_a_result_for_a_turn_that_another_window_has_cancelled_begins_another_turn() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk, run, reply = await called(backend, "call count {}")
        other = Talk(backend, tools=talk.request["tools"])
        other.messages = talk.messages[:1]
        assert (await other.ask("say never mind")).text == "never mind "
        answer = results(reply.calls, "seven")
        talk.messages.append(Message(role="user", parts=tuple(answer)))
        await run.answer(answer, Request(model="scripted", messages=tuple(talk.messages), tools=talk.request["tools"]))
        assert (await leg(run)).reason == "end_turn"
        await run.aclose()


async def test_a_result_that_comes_too_late_is_told_as_text() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk, run, reply = await called(backend, "call count {}")
        await run.aclose()
        talk.messages.append(Message(role="user", parts=(*results(reply.calls, "seven"), Text(text="recall"))))
        later = await leg(await talk.start())
        assert json.loads(later.text)[-1] == "The result of count:\nseven\nrecall"
        assert len(list(backend._opener.sessions)) == 1


async def test_a_result_for_an_agent_that_died_meanwhile_begins_another_turn() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk, run, reply = await called(backend, "call count {}")
        (agent,) = backend._opener.fleet.agents
        await agent.end("was ended by a test")
        answer = results(reply.calls, "seven")
        talk.messages.append(Message(role="user", parts=(*answer, Text(text="recall"))))
        request = Request(model="scripted", messages=tuple(talk.messages), tools=(LOOK, COUNT))
        await run.answer(answer, request, "recall")
        (prompt,) = json.loads((await leg(run)).text)
        assert "[called count with {}]" in prompt
        assert "The result of count:\nseven\nrecall" in prompt
        await run.aclose()


async def test_where_no_tool_may_be_called_none_is_offered() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        talk = Talk(backend, tools=(COUNT,), tool_choice=ToolChoice(mode="none"))
        reply = await talk.ask("say hello")
        assert reply.reason == "end_turn"
        assert next(iter(backend._opener.sessions)).endpoint is None


async def test_tools_that_come_later_are_offered_to_the_session_taken_up_again() -> None:
    async with serving(scripted("--can", "http,close"), tools=True) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        talk.request = {"tools": (COUNT,)}
        reply = await talk.ask("tools")
        assert json.loads(reply.text).keys() == {"count"}


# ── the server itself ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def bridge() -> Any:
    bridge = ToolBridge(mint_token=iter("abcdefgh").__next__, shim=StdioShim(sys.executable), progress_interval=0.05)
    yield bridge
    await bridge.aclose()


class Server:
    """The server that an agent is given for an endpoint."""

    def __init__(self, endpoint: ToolEndpoint, token: str = "") -> None:
        told = endpoint.server(Abilities(mcp_http=True))
        assert isinstance(told, McpHttp)
        self.url = told.url.replace(endpoint.token, token) if token else told.url


async def shout(spec: ToolSpec, arguments: str) -> ToolResult:
    return ToolResult(call_id="", content=(Text(text=f"{spec.name} {arguments}".upper()),))


async def test_an_endpoint_knows_its_own_tools_and_nobody_elses(bridge: ToolBridge) -> None:
    first, second = await bridge.open(), await bridge.open()
    first.offer([COUNT])
    second.offer([LOOK, ToolSpec(name="shell", freeform=True), ToolSpec(name="search", hosted="web")])
    second.caller = shout
    async with asyncio.timeout(SOON), connected(Server(first)) as mcp:
        assert [one.name for one in (await mcp.list_tools()).tools] == ["count"]
        idle = await mcp.call_tool("count", {})
        assert idle.is_error, "no turn is under way"
    async with asyncio.timeout(SOON), connected(Server(second)) as mcp:
        assert [one.name for one in (await mcp.list_tools()).tools] == ["look_up", "shell"]
        assert _text(await mcp.call_tool("shell", {"input": "ls -l"})) == "SHELL LS -L"
        assert (await mcp.call_tool("count", {})).is_error


async def test_whoever_does_not_know_a_token_gets_nothing(bridge: ToolBridge) -> None:
    endpoint = await bridge.open()
    endpoint.offer([COUNT])
    with pytest.raises(Exception, match=r"."):
        async with asyncio.timeout(SOON), connected(Server(endpoint, token="guessed")):
            pass
    endpoint.close()
    with pytest.raises(Exception, match=r"."):
        async with asyncio.timeout(SOON), connected(Server(endpoint)):
            pass


async def test_a_call_that_waits_shows_signs_of_life_and_goes_with_whoever_made_it(bridge: ToolBridge) -> None:
    endpoint = await bridge.open()
    endpoint.offer([COUNT])
    given_up = asyncio.Event()
    beats: list[float] = []

    async def wait(spec: ToolSpec, arguments: str) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        raise AssertionError

    async def beat(progress: float, total: float | None, message: str | None) -> None:
        beats.append(progress)

    endpoint.caller = wait
    async with asyncio.timeout(SOON), connected(Server(endpoint)) as mcp:
        call = asyncio.create_task(mcp.call_tool("count", {}, progress_callback=beat))
        await until(lambda: len(beats) >= 2)
        call.cancel()
        await given_up.wait()


async def test_an_agent_that_takes_no_servers_by_http_gets_a_program(bridge: ToolBridge) -> None:
    await bridge.open()  # for somebody else: without anybody the server itself would go
    endpoint = await bridge.open()
    told = endpoint.server(Abilities())
    assert isinstance(told, McpStdio)
    assert told.command == sys.executable
    endpoint.offer([COUNT])
    endpoint.caller = shout
    async with asyncio.timeout(SOON), connected(told) as mcp:
        assert _text(await mcp.call_tool("count", {"to": 3})) == 'COUNT {"TO":3}'
        endpoint.close()
        with pytest.raises(Exception, match="404"):
            await mcp.list_tools()


def test_names_are_such_as_every_agent_takes() -> None:
    longest = "x" * 80
    found = named_tools([tool("a.b"), tool("a b"), tool(longest), tool(longest), tool("")])
    assert list(found)[:2] == ["a_b", "a_b_2"]
    assert all(len(name) <= 48 and name for name in found)
    assert len(found) == 5


def test_the_mcp_package_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, tieline.backends.acp.backend; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0  # noqa: S603 - ours


def _text(result: Any) -> str:
    return str(result.content[0].text)


async def test_a_server_that_cannot_start_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError("no more files")

    bridge = ToolBridge(mint_token=lambda: "token", shim=StdioShim(sys.executable, "shim.py"))
    with monkeypatch.context() as patched:
        patched.setattr("mcp.server.streamable_http_manager.StreamableHTTPSessionManager.run", fail)
        async with asyncio.timeout(SOON):
            with pytest.raises(OSError, match="no more files"):
                await bridge.open()
    assert (await bridge.open()).token == "token", "the next request starts it again"
    await bridge.aclose()
