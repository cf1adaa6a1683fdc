"""More of `tieline chat` in a terminal: plans, questions, interrupts, commands, plain terminals."""

import signal
from pathlib import Path

from tests.e2e.chat_support import Screen, chatting, page
from tests.e2e.cli_support import WAIT, configured, serving
from tests.e2e.tools_support import DEMO, KEY, call, script
from tests.e2e.tools_support import serving as standing


async def test_always_is_remembered(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path) as screen:
        await screen.until("› ")
        await screen.enter("run: echo one")
        await screen.until("$ echo one", "a: Always allow running", "[n] › ")
        await screen.answer("a", until="✓ Run echo one")
        await screen.until(" out")
        await screen.enter("run: echo one")
        assert "?" not in (await screen.until("✓ Run echo one", " out")).replace("[?", "")
        assert await screen.leave() == 0


async def test_a_plan_a_question_and_live_steps(tmp_path: Path) -> None:
    steps = [{"id": "1", "content": "look", "status": "completed"}, {"id": "2", "content": "act", "status": "pending"}]
    words = script(
        call("create_plan", title="Tidy up", plan="# The steps\n\n1. look"),
        call("todo_write", todos=steps),
        call("ask_question", question="Which?", kind="choice", options=[{"label": "red"}, {"label": "blue"}]),
        "text: It was {{result}}.",
    )
    async with standing(tmp_path) as stand, chatting(stand, tmp_path, "--mode", "plan") as screen:
        await screen.until("› ")
        screen.type(f"\x1b[200~{words}\x1b[201~\r")
        await screen.until("? Plan: Tidy up", "The steps", "y approve")
        await screen.answer("y", until="Plan Tidy up  Approved. Agent mode is on.")
        await screen.until("1 red", "2 blue", "number")
        await screen.answer("2", until="answered: blue")
        await screen.until("Plan  1 of 2", "✓ look", "○ act", " out")
        assert await screen.leave() == 0


async def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path) as screen:
        await screen.until("› ")
        await screen.enter("run: sleep 60")
        await screen.until("[n] › ")
        await screen.answer("y", until="Ctrl-C stops")
        screen.type("\x03")
        await screen.until("■ Run sleep 60  stopped", "■ Stopped.", "› ")
        await screen.enter("say hello")
        await screen.until("hello", " out")
        screen.type("\x03")
        await screen.until("Press Ctrl-C again")
        screen.type("\x03")
        assert await screen.left() == 0


async def test_the_model_and_the_mode_change_during_a_conversation(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path, "say hello") as screen:
        await screen.until("› say hello", " out", "› ")
        await screen.enter("/mode plan")
        await screen.until("demo/scripted · plan mode")
        await screen.enter("/mode nonsense")
        await screen.until("the modes are default, chat, plan, agent")
        await screen.enter("/model scripted")
        await screen.until("demo/scripted · plan mode")
        session = (await page(stand, "GET", "/api/state"))["sessions"][0]
        assert (session["model"], session["mode"]) == (DEMO, "plan")
        screen.type("/mod\t\t")
        await screen.until("/model", "/mode")
        screen.type("\x15")
        await screen.enter("/nonsense")
        await screen.until("There is no command /nonsense")
        assert await screen.leave() == 0


async def test_a_terminal_that_cannot_move_its_cursor_gets_plain_text(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        screen = Screen(tmp_path, "--url", stand.url, TERM="dumb", NO_COLOR="1")
        try:
            await screen.until("› ")
            screen.type("run: echo hello\n")
            await screen.until("$ echo hello", "[n] › ")
            await screen.answer("n", until="✗ Run echo hello", enter="\n")
            await screen.until(" out")
            assert b"\x1b" not in screen.raw
            screen.type("/quit\n")
            assert await screen.left() == 0
        finally:
            screen.close()


async def test_a_gateway_that_restarts_during_an_answer_is_found_again(tmp_path: Path) -> None:
    configured(tmp_path, "[[tools.rules]]\ntool = 'run_terminal'\ndecision = 'allow'\n")
    with serving(tmp_path, "--tools", TIELINE_KEY=KEY) as (process, port):
        screen = Screen(tmp_path, "--url", f"http://127.0.0.1:{port}")
        try:
            await screen.until("› ")
            await screen.enter("run: sleep 60")
            await screen.until("Run sleep 60", "Ctrl-C stops")
            process.send_signal(signal.SIGTERM)
            await screen.until("The gateway does not answer. Waiting for it to come back.")
            process.wait(WAIT)
            with serving(tmp_path, "--tools", "--port", str(port), TIELINE_KEY=KEY):
                await screen.until("The gateway is back.", "The gateway was stopped during this message.", "› ")
                await screen.enter("say hello")
                await screen.until("hello", " out", "› ")
                assert await screen.leave() == 0
        finally:
            screen.close()


async def test_waiting_for_a_gateway_that_stopped_can_be_ended(tmp_path: Path) -> None:
    configured(tmp_path, "[[tools.rules]]\ntool = 'run_terminal'\ndecision = 'allow'\n")
    with serving(tmp_path, "--tools", TIELINE_KEY=KEY) as (process, port):
        screen = Screen(tmp_path, "--url", f"http://127.0.0.1:{port}")
        try:
            await screen.until("› ")
            await screen.enter("run: sleep 60")
            await screen.until("Run sleep 60", "Ctrl-C stops")
            process.send_signal(signal.SIGTERM)
            await screen.until("Ctrl-C stops waiting")
            screen.type("\x03")
            await screen.until("No longer waiting for this answer.", "› ")
            await screen.enter("say hello")
            await screen.until("Cannot reach a gateway")
            assert await screen.leave() == 0
        finally:
            screen.close()


async def test_what_is_typed_while_it_starts_is_sent_and_what_is_typed_during_an_answer_is_kept(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        screen = Screen(tmp_path, "--url", stand.url)
        try:
            screen.type("run: sleep 60\n")
            await screen.until("? Run this command?", "[n] › ")
            await screen.answer("y", until="Ctrl-C stops")
            screen.type("typed ahead\r\x03")
            await screen.until("■ Stopped.", "› typed ahead")
            screen.type("\x15")
            assert await screen.leave() == 0
        finally:
            screen.close()


async def test_a_request_to_end_restores_the_terminal(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path) as screen:
        await screen.until("› ")
        screen.process.send_signal(signal.SIGTERM)
        assert await screen.left() == 0
