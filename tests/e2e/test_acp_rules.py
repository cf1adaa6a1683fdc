"""Rules before persons: what an agent asks for is allowed or denied where the rules say so, in the whole gateway."""

import asyncio
from pathlib import Path

from tests.e2e.acp_support import Dialect, serving
from tests.e2e.tools_support import DIALECTS, PATIENCE
from tieline.app.config import ToolSettings
from tieline.model.inbox import PlanReview
from tieline.model.rules import Rule

pytestmark = DIALECTS


async def test_what_a_rule_allows_or_denies_is_not_asked(tmp_path: Path, dialect: Dialect) -> None:
    rules = (
        Rule(decision="allow", tool="run_terminal", command="git status"),
        Rule(decision="deny", tool="run_terminal", command="rm"),
    )
    async with serving(tmp_path, tools=ToolSettings(rules=rules)) as stand:
        talk = stand.talk(dialect)
        assert (await talk.say("permit git status --short")).text == "chosen yes"
        assert (await talk.say("permit rm -rf build")).text == "chosen no"
        assert [(one["what"], one["decision"]) for one in stand.audit()] == [("ruled", "allow"), ("ruled", "deny")]
        asking = asyncio.create_task(talk.say("permit git status; make"))
        await stand.decide(option="yes")
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "chosen yes"


async def test_reads_inside_the_workspace_are_allowed_and_others_are_asked(tmp_path: Path, dialect: Dialect) -> None:
    async with serving(tmp_path) as stand:
        talk = stand.talk(dialect)
        assert (await talk.say(f"peek {stand.root}/a.txt")).text == "chosen yes"
        (stand.root / "way_out").symlink_to(tmp_path)
        for path in (tmp_path / "secret", stand.root / "way_out" / "secret"):
            asking = asyncio.create_task(talk.say(f"peek {path}"))
            await stand.decide(option="no")
            async with asyncio.timeout(PATIENCE):
                assert (await asking).text == "chosen no"


async def test_with_everything_allowed_an_agent_is_not_asked_about_but_its_plan_is(
    tmp_path: Path, dialect: Dialect
) -> None:
    async with serving(tmp_path, tools=ToolSettings(yolo=True)) as stand:
        talk = stand.talk(dialect)
        assert (await talk.say("permit rm -rf build")).text == "chosen yes", "and not for ever"
        assert [(one["what"], one["reason"]) for one in stand.audit()] == [
            ("ruled", "everything is allowed (--yolo)"),
        ]
        asking = asyncio.create_task(talk.say("exit Paint it"))
        assert isinstance((await stand.decide(approved=True)).content, PlanReview)
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "chosen go"


async def test_what_was_allowed_for_good_for_tools_in_this_folder_counts(tmp_path: Path, dialect: Dialect) -> None:
    folder = str(tmp_path / "workspace")
    async with serving(tmp_path, tools=ToolSettings(enabled=True, workspace=folder)) as stand:
        keeper = stand.app.tools
        assert keeper is not None
        rule = Rule(decision="allow", tool="run_terminal", path="/.", command="make test", exact=True)
        await keeper.remember(rule)
        talk = stand.talk(dialect)
        assert (await talk.say("permit make test")).text == "chosen yes"
        assert (await stand.http.delete(f"/api/rules/{rule.id}")).is_success
        asking = asyncio.create_task(talk.say("permit make test"))
        await stand.decide(option="no")
        async with asyncio.timeout(PATIENCE):
            assert (await asking).text == "chosen no"
