"""Which session a request goes on with: appended, taken up again after a restart, or told everything anew."""

import asyncio
import gc
import json
import weakref
from pathlib import Path

import pytest

from tests.backends.acp_support import SOON, Person, Reply, Talk, leg, plain, scripted, serving, tool, until, user
from tieline.backends.acp.backend import AcpBackend
from tieline.model.content import Message, Text, Thinking
from tieline.model.errors import GatewayError


def sessions(backend: AcpBackend) -> int:
    return len(list(backend._opener.sessions))


def recalled(reply: Reply) -> list[str]:
    """The prompts that the session of the scripted agent has got."""
    told: list[str] = json.loads(reply.text)
    return told


async def test_a_conversation_that_goes_on_is_appended_to_its_session() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("say one\nedit\nsay two")
        await talk.ask("say three")
        assert recalled(await talk.ask("recall")) == ["say one\nedit\nsay two", "say three", "recall"]
        assert sessions(backend) == 1


async def test_what_a_client_shows_beside_the_words_does_not_matter() -> None:
    """Catalogue 140: thoughts dropped or kept, activities as text, white space, reminders that come and go."""
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("<system-reminder>It is Monday.</system-reminder>\nsay one\nthink hm\nedit\nsay two")
        talk.messages = [
            Message(role="system", parts=(Text(text="It is Tuesday."),)),
            user("say one\nthink hm\nedit\nsay two\n<system-reminder>It is Tuesday.</system-reminder>"),
            Message(
                role="assistant",
                parts=(Text(text="one\n"), Thinking(text="hm"), Text(text="▸ Edit a.py\n"), Text(text=" two")),
            ),
        ]
        with_system = Talk(backend)
        with_system.messages = talk.messages[1:]
        assert len(recalled(await with_system.ask("recall"))) == 2
        assert sessions(backend) == 1


@pytest.mark.parametrize("changed", ["user", "assistant"])
async def test_a_history_that_was_edited_is_told_to_a_new_session(changed: str) -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        place = 0 if changed == "user" else 1
        talk.messages[place] = Message(role=talk.messages[place].role, parts=(Text(text="say other"),))
        (prompt,) = recalled(await talk.ask("recall"))
        assert "User: say other" in prompt or "Assistant: say other" in prompt
        assert prompt.endswith("recall")
        assert sessions(backend) == 2, "the first session is still there for whoever goes on with it"


async def test_a_new_session_is_told_the_instructions_and_the_conversation_so_far() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        talk.messages = [
            Message(role="system", parts=(Text(text="Be brief."),)),
            user("Who are you?"),
            Message(role="assistant", parts=(Text(text="Somebody else."),)),
        ]
        (prompt,) = recalled(await talk.ask("recall"))
    assert prompt.startswith("<instructions>\nBe brief.\n</instructions>")
    assert "User: Who are you?\n\nAssistant: Somebody else." in prompt


async def test_a_call_beside_a_conversation_does_not_disturb_its_session() -> None:
    """Catalogue 140: a client asks for a title with other instructions and no tools, over the same history."""
    async with serving(scripted()) as backend:
        talk = Talk(backend, tools=(tool("look"),))
        talk.messages.append(Message(role="system", parts=(Text(text="You are a coding assistant."),)))
        await talk.ask("say one")
        aside = Talk(backend)
        aside.messages = [Message(role="system", parts=(Text(text="Make a title."),)), *talk.messages[1:]]
        assert (await aside.ask("say A title")).text == "A title "
        assert len(recalled(await talk.ask("recall"))) == 2
        assert sessions(backend) == 2


async def test_two_conversations_that_begin_alike_do_not_mix() -> None:
    """Catalogue 148."""
    async with serving(scripted()) as backend:
        first, second = Talk(backend), Talk(backend)
        await asyncio.gather(first.ask("say hello"), second.ask("say hello"))
        await first.ask("say apples")
        await second.ask("say pears")
        assert "say pears" not in recalled(await first.ask("recall"))
        assert "say apples" not in recalled(await second.ask("recall"))


@pytest.mark.parametrize("can", ["load", "resume"])
async def test_after_a_restart_of_the_agent_the_session_is_taken_up_again(can: str, tmp_path: Path) -> None:
    async with serving(scripted("--can", can, "--memory", str(tmp_path / "memory"))) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        await Talk(backend).ask("die")
        reply = await talk.ask("recall")
        assert recalled(reply) == ["say one", "recall"], "its history is not told again, and is not part of the answer"


async def test_a_session_that_cannot_be_taken_up_again_is_told_everything() -> None:
    async with serving(scripted("--can", "load")) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        await Talk(backend).ask("die")
        (prompt,) = recalled(await talk.ask("recall"))
        assert "User: say one\n\nAssistant: one" in prompt


async def test_a_session_that_was_opened_anew_but_not_told_anything_is_told_everything_later() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        await Talk(backend).ask("die")
        mistaken = Talk(backend, "scripted?mode=nonsense")
        mistaken.messages = list(talk.messages)
        with pytest.raises(GatewayError, match="has no mode `nonsense`"):
            await mistaken.ask("recall")
        (prompt,) = recalled(await talk.ask("recall"))
        assert "User: say one\n\nAssistant: one" in prompt


async def test_one_turn_at_a_time_and_the_next_waits_for_it() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        slow, quick = Talk(backend), Talk(backend)
        slow.messages, quick.messages = list(talk.messages), list(talk.messages)
        slow.messages.append(user("wait"))
        quick.messages.append(user("recall"))
        run, later = await slow.start(), await quick.start()
        slow_leg = run.leg()
        async with asyncio.timeout(SOON):
            await anext(aiter(slow_leg))
        waiting = asyncio.create_task(leg(later))
        await until(lambda: any(session.is_busy for session in backend._opener.sessions))
        assert not waiting.done()
        await run.aclose()
        reply = await waiting
        assert recalled(reply) == ["say one", "wait", "recall"]
        await later.aclose()


async def test_whoever_waits_too_long_for_a_session_is_told_so() -> None:
    async with serving(scripted(), queue_within=0.1) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        other = Talk(backend)
        other.messages = list(talk.messages)
        talk.messages.append(user("wait"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        with pytest.raises(GatewayError) as caught:
            await other.ask("say two")
        assert caught.value.code == "session_busy"
        await run.aclose()


async def test_a_client_that_leaves_cancels_the_turn_and_goes_on_in_the_same_session() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        talk.messages.append(user("wait"))
        run = await talk.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        await run.aclose()
        talk.messages.append(Message(role="assistant", parts=(Text(text="wait"),)))
        reply = await talk.ask("recall")
        assert recalled(reply) == ["say one", "wait", "recall"], "late words are no part of this answer"


async def test_a_turn_that_failed_can_be_asked_for_again_in_the_same_session(tmp_path: Path) -> None:
    async with serving(scripted("--can", "load", "--memory", str(tmp_path / "memory"))) as backend:
        talk = Talk(backend)
        await talk.ask("say one")
        reply = await talk.ask("say two\ndie")
        assert reply.failed.code == "agent_ended"
        talk.messages = talk.messages[:2]
        assert recalled(await talk.ask("recall")) == ["say one", "say two\ndie", "recall"]


async def test_only_so_many_sessions_are_remembered() -> None:
    async with serving(plain("echo"), sessions=2) as backend:
        for words in ("one", "two", "three"):
            await Talk(backend, "plain").ask(words)
        assert sessions(backend) == 2


async def test_a_turn_that_is_over_leaves_nothing_to_clean_up() -> None:
    async with serving(plain("echo")) as backend:
        talk = Talk(backend, "plain")
        talk.messages.append(user("one"))
        gc.disable()
        try:
            run = await talk.start()
            await leg(run)
            turn = weakref.ref(run._turn)  # type: ignore[attr-defined] # what no frontend sees
            await run.aclose()
            assert turn() is None
        finally:
            gc.enable()


async def test_sessions_of_one_agent_share_a_process_and_run_side_by_side() -> None:
    async with serving(scripted()) as backend:
        waiting = Talk(backend)
        waiting.messages.append(user("wait"))
        run = await waiting.start()
        async with asyncio.timeout(SOON):
            await anext(aiter(run.leg()))
        other = Talk(backend)
        first = (await other.ask("pid", Person())).text
        assert (await other.ask("pid")).text == first
        assert [str(agent.pid) for agent in backend._opener.fleet.agents] == [first]
        await run.aclose()
