"""The gateway's own tools in the page: output as it comes, changed lines, and a plan that goes on."""

from playwright.async_api import Locator, expect

from tests.e2e.tools_support import TELL, call, script
from tests.tools.alive import Alive
from tests.web.browser import IN_CHROMIUM, Server, Window

pytestmark = IN_CHROMIUM

WAIT = "until [ -e go ]; do sleep 0.01; done"
SLOW = call("run_terminal", command=f"echo first; {WAIT}; echo second; exit 3")
AT_END = "(element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2"


def output(window: Window) -> Locator:
    return window.answer.locator("tl-tool .output-text")


async def test_output_of_a_command_is_seen_before_the_command_is_over(window: Window, server: Server) -> None:
    await window.say(script(SLOW, TELL))
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "pending")
    await window.choose("allow")
    await expect(output(window)).to_have_text("first")
    await expect(output(window)).to_be_visible()
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "in_progress")
    assert not (server.root / "go").exists()
    (server.root / "go").touch()
    await expect(output(window)).to_have_text("first\nsecond\n(exit code: 3)")
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "failed")
    await expect(window.answer).to_contain_text("It said: exit code: 3")


async def test_output_so_far_is_there_after_a_reload(window: Window, server: Server) -> None:
    await window.say(script(SLOW, TELL))
    await window.choose("allow")
    await expect(output(window)).to_have_text("first")
    await window.page.reload()
    await expect(output(window)).to_have_text("first")
    await expect(window.answer.locator("tl-tool")).to_have_attribute("data-status", "in_progress")
    (server.root / "go").touch()
    await expect(output(window)).to_have_text("first\nsecond\n(exit code: 3)")


async def test_a_command_that_is_stopped_is_over_and_what_it_wrote_stays(window: Window, server: Server) -> None:
    async with Alive(server.root) as alive:
        await window.say(script(call("run_terminal", command="exec 9>alive; echo up >&9; echo first; sleep 60"), TELL))
        await window.choose("allow")
        await alive.says("up")
        await expect(output(window)).to_have_text("first")
        await window.part("stop").click()
        await alive.is_over()
    card = window.answer.locator("tl-tool")
    await expect(card).to_have_attribute("data-status", "stopped")
    await window.page.reload()
    await expect(card).to_have_attribute("data-status", "stopped")
    await expect(output(window)).to_have_text("first")
    await expect(card.locator(".tool-time")).to_have_text("")


async def test_long_output_shows_its_end_folded_and_unfolded_until_a_person_scrolls_back(
    window: Window, server: Server
) -> None:
    command = f"seq 100; {WAIT}; rm go; seq 101 200; {WAIT}; seq 201 300"
    await window.say(script(call("run_terminal", command=command), TELL))
    await window.choose("allow")
    await expect(output(window)).to_contain_text("100")
    assert await output(window).evaluate(AT_END)
    await window.answer.get_by_role("button", name="Show all 100 lines").click()
    await output(window).evaluate("(element) => element.scrollTo(0, element.scrollHeight)")
    (server.root / "go").touch()
    await expect(output(window)).to_contain_text("200")
    assert await output(window).evaluate(AT_END)
    await output(window).evaluate("(element) => element.scrollTo(0, 0)")
    (server.root / "go").touch()
    await expect(output(window)).to_contain_text("300")
    assert await output(window).evaluate("(element) => element.scrollTop") == 0
    await window.page.reload()
    await expect(output(window)).to_contain_text("300")
    assert await output(window).evaluate(AT_END)


async def test_a_change_is_seen_in_red_and_green_where_it_is_in_the_file(window: Window, server: Server) -> None:
    (server.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 30)))
    edit = call("edit_file", path="a.txt", old_text="line 20\n", new_text="twenty\n")
    await window.say(script(edit, call("write_file", path="b.txt", content="new\n"), TELL))
    for place, (removed, added) in enumerate(((["line 20"], ["twenty"]), ([], ["new"]))):
        await expect(window.ask.locator(".line.removed code")).to_have_text(removed)
        await expect(window.ask.locator(".line.added code")).to_have_text(added)
        await window.choose("allow")
        diff = window.answer.locator("tl-tool").nth(place).locator('[data-test="diff"]')
        await expect(diff.locator(".line.removed code")).to_have_text(removed)
        await expect(diff.locator(".line.added code")).to_have_text(added)
    first, second = (window.answer.locator('[data-test="diff"]').nth(place) for place in (0, 1))
    await expect(first.locator(".line").first).to_contain_text("line 17")
    await expect(first.locator(".line.removed .number").first).to_have_text("20")
    await expect(first.locator(".line.added .number").last).to_have_text("20")
    await expect(second.locator(".tag")).to_have_text("new")


async def test_a_plain_model_has_a_plan_that_goes_on_as_it_works(window: Window, server: Server) -> None:
    todos = [{"id": "1", "content": "Look", "status": "in_progress"}, {"id": "2", "content": "Write"}]
    done = [{"id": "1", "content": "Look", "status": "completed"}]
    await window.say(
        script(
            call("todo_write", todos=todos),
            call("run_terminal", command=WAIT),
            call("todo_write", todos=done, merge=True),
            TELL,
        )
    )
    steps = window.answer.locator('[data-test="step"]')
    await expect(steps).to_have_text(["Look (in progress)", "Write (to do)"])
    await window.choose("allow")
    (server.root / "go").touch()
    await expect(steps).to_have_text(["Look (done)", "Write (to do)"])
    await expect(window.answer.locator('[data-test="plan"]')).to_have_count(1)
    await expect(window.answer.locator(".plan-count")).to_have_text("1 of 2")


async def test_an_approved_plan_stays_in_sight_with_its_steps(window: Window) -> None:
    plan = {"title": "A greeting", "plan": "Say hello.", "todos": [{"id": "1", "content": "Write it"}]}
    done = [{"id": "1", "content": "Write it", "status": "completed"}]
    await window.say(
        script(call("create_plan", **plan), call("todo_write", todos=done, merge=True), "text: Now you know.")
    )
    await expect(window.answer.locator('[data-test="plan"]')).to_have_count(0)
    await window.press(window.ask.locator('[data-test="approve"]'))
    await expect(window.answer.locator('[data-test="step"]')).to_have_text(["Write it (done)"])
    await expect(window.answer).to_contain_text("Now you know.")


async def test_traffic_tells_once_that_a_command_runs_however_much_it_writes(window: Window, server: Server) -> None:
    command = f"echo first; {WAIT}; rm go; echo second; {WAIT}; echo third"
    await window.say(script(call("run_terminal", command=command), TELL))
    await window.choose("allow")
    for line in ("first", "second"):
        await expect(output(window)).to_contain_text(line)
        (server.root / "go").touch()
    await expect(window.answer).to_contain_text("It said:")
    await window.open("/traffic")
    await window.part("leg").click()
    entries = window.part("leg-detail").locator('[data-test="entry"]').filter(has_text="run_terminal")
    states = ("waiting", "in progress", "completed")
    await expect(entries).to_have_count(len(states))


async def test_the_first_suggestion_for_the_demo_model_reads_the_project(window: Window, server: Server) -> None:
    (server.root / "README.md").write_text("# Shop\n\nA small shop for tea.\n")
    idea = window.page.locator(".idea").first
    await expect(idea).to_have_text("Explain what this project does")
    await idea.click()
    await window.composer.press("Enter")
    await expect(window.answer).to_contain_text("A small shop for tea.")
