"""Which conversations share an agent process, and how many processes there are."""

import asyncio
from pathlib import Path

import pytest

from tests.backends.acp_support import SOON, Talk, group_is_gone, leg, scripted, serving, tool, until, user
from tieline.backends.acp.backend import AcpBackend
from tieline.model.content import Text, ToolResult
from tieline.model.errors import GatewayError

COUNT = tool("count")


def running(backend: AcpBackend) -> list[int]:
    return [agent.pid for agent in backend._opener.fleet.agents]


async def test_conversations_without_client_tools_share_a_process_and_those_with_tools_do_not() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        plain = {(await Talk(backend).ask("pid")).text for _ in range(2)}
        own = {(await Talk(backend, tools=(COUNT,)).ask("pid")).text for _ in range(2)}
        assert (len(plain), len(own)) == (1, 2)
        assert plain.isdisjoint(own)


async def test_a_conversation_that_brings_tools_later_moves_to_a_process_of_its_own(tmp_path: Path) -> None:
    async with serving(scripted("--can", "http,load,close", "--memory", str(tmp_path / "m")), tools=True) as backend:
        talk, other = Talk(backend), Talk(backend)
        shared = (await talk.ask("pid")).text
        assert (await other.ask("pid")).text == shared
        talk.request = {"tools": (COUNT,)}
        assert (await talk.ask("pid")).text != shared
        assert (await talk.ask("recall")).text == '["pid", "pid", "recall"]', "the same session, loaded elsewhere"
        assert (await other.ask("pid")).text == shared


async def test_the_process_idle_for_longest_ends_to_make_room_and_its_conversation_goes_on_in_another(
    tmp_path: Path,
) -> None:
    spec = scripted("--can", "http,load", "--memory", str(tmp_path / "memory"))
    async with serving(spec, tools=True, processes=2) as backend:
        talks = [Talk(backend, tools=(COUNT,)) for _ in range(3)]
        pids = [(await talk.ask("pid")).text for talk in talks]
        assert len(set(pids)) == 3
        assert len(running(backend)) == 2
        assert int(pids[0]) not in running(backend)
        assert (await talks[0].ask("recall")).text == '["pid", "recall"]'
        assert len(running(backend)) == 2


async def test_more_conversations_at_work_than_processes_get_an_error_that_names_the_setting() -> None:
    async with serving(scripted("--can", "http"), tools=True, processes=1) as backend:
        first, second = Talk(backend, tools=(COUNT,)), Talk(backend, tools=(COUNT,))
        first.messages.append(user("call count {}"))
        waiting = await first.start()
        call = (await leg(waiting)).calls[0]
        second.messages.append(user("pid"))
        with pytest.raises(GatewayError, match=r"acp\.processes") as refused:
            await leg(await second.start())
        assert (refused.value.kind, refused.value.code) == ("overloaded", "too_many_agents")
        await waiting.answer([ToolResult(call_id=call.id, content=(Text(text="1"),))])
        assert (await leg(waiting)).text == "1\n", "the one that waited goes on"
        await waiting.aclose()


async def test_processes_started_at_the_same_time_are_counted() -> None:
    async with serving(scripted("--can", "http"), tools=True, processes=2) as backend:
        runs = []
        for _ in range(3):
            talk = Talk(backend, tools=(COUNT,))
            talk.messages.append(user("wait"))
            runs.append(await talk.start())
        async with asyncio.timeout(SOON):
            first = await asyncio.gather(*(anext(aiter(run.leg())) for run in runs), return_exceptions=True)
        failed = [one for one in first if isinstance(one, GatewayError)]
        assert (len(failed), len(running(backend))) == (1, 2)
        for run in runs:
            await run.aclose()


async def test_the_process_of_a_conversation_that_is_forgotten_ends() -> None:
    async with serving(scripted("--can", "http"), tools=True, sessions=1) as backend:
        pid = int((await Talk(backend, tools=(COUNT,)).ask("pid")).text)
        await Talk(backend, tools=(COUNT,)).ask("say hello")
        await until(lambda: pid not in running(backend))


async def test_a_process_that_is_still_starting_ends_with_its_workspace(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    silent = scripted(command=("sh", "-c", f"echo $$ > {file}; exec sleep 60"))
    async with serving(silent) as backend:
        talk = Talk(backend)
        talk.messages.append(user("hello"))
        waiting = asyncio.create_task(leg(await talk.start()))
        await until(lambda: file.exists() and file.read_text().endswith("\n"))
        backend.leave_workspace("")
        await asyncio.wait([waiting], timeout=SOON)
        assert waiting.cancelled()
        await until(lambda: group_is_gone(int(file.read_text())))


async def test_a_retiring_process_ends_with_its_workspace() -> None:
    async with serving(scripted("--can", "http"), tools=True) as backend:
        pid = int((await Talk(backend).ask("pid")).text)
        busy = Talk(backend)
        busy.messages.append(user("wait"))
        run = await busy.start()
        await anext(aiter(run.leg()))
        backend._opener.fleet.agents[0].retire()
        assert int((await Talk(backend).ask("pid")).text) != pid, "a new process serves new conversations"
        backend.leave_workspace("")
        await until(lambda: group_is_gone(pid))
        await run.aclose()
