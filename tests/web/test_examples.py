"""The examples of an empty page: on a gateway without any settings, each shows what its card promises."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.core.scripted import PATIENCE
from tests.web.serving import Listener, PageStand, serving
from tieline.app.config import Config, ToolSettings

PATH = "/usr/bin:/bin"


async def begin(page: PageStand, example_id: str) -> tuple[str, str]:
    """Start an example as the page does; the ids of the session and of the answer."""
    state = await page.state()
    example = next(one for one in state["examples"]["items"] if one["id"] == example_id)
    settings = {"model": example["model"], "mode": example["mode"], "example": True}
    session = (await page.post("/api/sessions", settings))["id"]
    sent = await page.post(f"/api/sessions/{session}/send", {"text": example["text"]})
    return session, sent["assistant"]


async def waiting(page: PageStand, stream: Listener) -> dict[str, Any]:
    """The next item that waits for a person."""
    async with asyncio.timeout(PATIENCE):
        items = (await page.get("/api/inbox"))["items"]
        while not items:
            await stream.until(lambda one: one["type"] == "inbox")
            items = (await page.get("/api/inbox"))["items"]
    item: dict[str, Any] = items[0]
    return item


def text_of(turn: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in turn["parts"])


def folder(home: Path) -> Path:
    return home / ".local/state/tieline/examples"


async def test_a_page_without_any_settings_offers_four_examples(tmp_path: Path) -> None:
    async with serving(tmp_path) as page:
        examples = (await page.state())["examples"]
    assert [one["id"] for one in examples["items"]] == ["read", "run", "plan", "question"]
    assert examples["folder"] == str(folder(tmp_path))
    assert not folder(tmp_path).exists()


async def test_reading_a_file_needs_no_permission(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "read")
        turn = await stream.turn(answer)
    assert "A small shop that sells tea" in text_of(turn)
    assert [one["activity"]["kind"] for one in turn["activities"]] == ["read"]
    assert folder(tmp_path).stat().st_mode & 0o777 == 0o700


async def test_a_command_runs_only_when_it_is_allowed_and_in_the_folder_of_the_examples(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "run")
        item = await waiting(page, stream)
        assert item["ask"]["command"] == "sort -t, -k2 -nr sales.csv"
        await page.post(f"/api/inbox/{item['id']}", {"option": "allow"})
        turn = await stream.turn(answer)
    (activity,) = [one["activity"] for one in turn["activities"]]
    assert activity["output"].startswith("Assam,41\nEarl Grey,35\n")


async def test_a_denied_command_does_not_run(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "run")
        item = await waiting(page, stream)
        await page.post(f"/api/inbox/{item['id']}", {"option": "deny"})
        turn = await stream.turn(answer)
    assert "Assam" not in text_of(turn)
    assert "did not allow" in text_of(turn)


@pytest.mark.parametrize(
    "command",
    ["touch ran", "sort -t, -k2 -nr sales.csv; touch ran", "sort -t, -k2 -nr sales.csv > ran", "sort -o ran sales.csv"],
)
async def test_the_examples_run_no_command_but_their_own(tmp_path: Path, command: str) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page:
        body = {"model": "demo/scripted", "example": True}
        session = (await page.post("/api/sessions", body))["id"]
        turn = await page.say(session, f"run: {command}")
        assert (await page.get("/api/inbox"))["items"] == []
    assert "Not allowed" in text_of(turn)
    assert not (folder(tmp_path) / "ran").exists()


async def test_the_examples_ask_even_if_the_gateway_does_not(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    config = Config(tools=ToolSettings(enabled=True, workspace=str(own), yolo=True))
    async with serving(tmp_path, config, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "run")
        item = await waiting(page, stream)
        await page.post(f"/api/inbox/{item['id']}", {"option": "allow"})
        await stream.turn(answer)
    assert list(own.iterdir()) == []


async def test_a_plan_is_reviewed_then_carried_out_step_by_step(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        session, answer = await begin(page, "plan")
        review = await waiting(page, stream)
        assert [step["content"] for step in review["ask"]["steps"]] == [
            "Read sales.csv",
            "Write summary.txt",
            "Read summary.txt",
        ]
        assert not (folder(tmp_path) / "summary.txt").exists()
        await page.post(f"/api/inbox/{review['id']}", {"approved": True})
        write = await waiting(page, stream)
        assert write["ask"]["tool"] == "write_file"
        await page.post(f"/api/inbox/{write['id']}", {"option": "allow"})
        turn = await stream.turn(answer)
        summary = (await page.get(f"/api/sessions/{session}"))["summary"]
    assert [step.get("status", "pending") for step in turn["plan"]["entries"]] == ["completed"] * 3
    assert "Best seller: Assam" in text_of(turn)
    assert summary["mode"] == "agent"


async def test_a_rejected_plan_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "plan")
        review = await waiting(page, stream)
        await page.post(f"/api/inbox/{review['id']}", {"approved": False, "feedback": "Not now."})
        turn = await stream.turn(answer)
    assert "Not now." in text_of(turn)
    assert "changed nothing" in text_of(turn)
    assert not (folder(tmp_path) / "summary.txt").exists()


async def test_a_step_that_is_denied_ends_the_plan_and_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "plan")
        review = await waiting(page, stream)
        await page.post(f"/api/inbox/{review['id']}", {"approved": True})
        write = await waiting(page, stream)
        await page.post(f"/api/inbox/{write['id']}", {"option": "deny"})
        turn = await stream.turn(answer)
    assert [step.get("status", "pending") for step in turn["plan"]["entries"]] == ["completed", "failed", "pending"]
    assert "Step 2 was not done" in text_of(turn)


async def test_a_question_is_answered_by_the_user(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        _, answer = await begin(page, "question")
        item = await waiting(page, stream)
        (field,) = item["ask"]["fields"]
        assert [option["label"] for option in field["options"]] == ["Assam", "Darjeeling", "Sencha"]
        await page.post(f"/api/inbox/{item['id']}", {"action": "accept", "values": {"answer": "Sencha"}})
        turn = await stream.turn(answer)
    assert "**Sencha**" in text_of(turn)


async def test_an_example_is_continued_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page, page.stream() as stream:
        session, answer = await begin(page, "read")
        await stream.turn(answer)
    async with serving(tmp_path, env={"PATH": PATH}) as page:
        turn = await page.say(session, "read sales.csv")
    assert "Darjeeling,28" in text_of(turn)


async def test_other_chats_and_other_models_get_no_tools_of_the_examples(tmp_path: Path) -> None:
    async with serving(tmp_path, env={"PATH": PATH}) as page:
        turn = await page.say(await page.begin("demo/scripted"), "read README.md")
        assert "no tools" in text_of(turn)
        refused = await page.post("/api/sessions", {"model": "test/m", "example": True}, status=400)
        assert refused["error"]["param"] == "example"
        session, _ = await begin(page, "question")
        await page.call("PATCH", f"/api/sessions/{session}", {"model": "test/m"})
        await page.post(f"/api/sessions/{session}/stop")
        await page.say(session, "read README.md")
        assert page.backend.requests[-1].tools == ()


async def test_without_the_demo_model_there_are_no_examples(tmp_path: Path) -> None:
    async with serving(tmp_path, Config(demo=False)) as page:
        assert (await page.state())["examples"]["items"] == []


async def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(tmp_path: Path) -> None:
    folder(tmp_path).parent.mkdir(parents=True)
    folder(tmp_path).write_text("in the way")
    async with serving(tmp_path) as page:
        body = {"model": "demo/scripted", "example": True}
        error = (await page.post("/api/sessions", body, status=500))["error"]
    assert str(folder(tmp_path)) in error["message"]
