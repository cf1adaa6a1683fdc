"""What the doctor finds out about upstreams: each check stops at what is really wrong, and says how to fix it."""

import json
from pathlib import Path

import pytest

from tests.app.doctor.support import KEY, MODELS, call, examined, lists, reads_the_word, says, upstream
from tieline.app.doctor import backends
from tieline.sim.answers import CHAT, streamed
from tieline.sim.model import Answer, Hang, ModelServer


async def test_a_good_upstream_passes_with_one_tool_round_trip(tmp_path: Path) -> None:
    async with ModelServer() as server:
        lists(server, "text-embedding-3", "big-model", "big-model-mini")
        reads_the_word(server)
        found = await examined(tmp_path, upstream(server), UP_KEY=KEY)
        sent = [request.json for request in server.requests if request.path == CHAT]
    assert [found[name].status for name in ("up", "up key", "up tools", "demo")] == ["ok"] * 4
    assert found["up key"].text == "accepted; 3 models"
    assert found["up tools"].text == "tool round trip with big-model-mini"
    assert len(sent) == 2
    assert {body["max_tokens"] for body in sent} == {2048}


async def test_offline_sends_the_upstream_nothing_that_costs_money(tmp_path: Path) -> None:
    async with ModelServer() as server:
        lists(server, "m")
        found = await examined(tmp_path, upstream(server), offline=True, UP_KEY=KEY)
        methods = {request.method for request in server.requests}
    assert methods == {"GET"}
    assert (found["up key"].status, found["up tools"].status, found["demo"].status) == ("ok", "skipped", "ok")


async def test_a_wrong_key_is_named_but_not_shown(tmp_path: Path) -> None:
    wrong = "sk-wrong-key-that-is-secret"
    async with ModelServer() as server:
        lists(server, "m")
        found = await examined(tmp_path, upstream(server), UP_KEY=wrong)
    assert found["up key"].status == "problem"
    assert "UP_KEY" in found["up key"].fix
    assert "up tools" not in found
    assert wrong not in json.dumps([finding.text + finding.fix for finding in found.values()])


async def test_a_missing_key_is_a_problem(tmp_path: Path) -> None:
    async with ModelServer() as server:
        found = await examined(tmp_path, upstream(server))
    assert (found["up key"].status, found["up key"].text) == ("problem", "UP_KEY is not set")


async def test_a_closed_port_hides_no_other_finding(tmp_path: Path) -> None:
    async with ModelServer() as server:
        text = upstream(server)
    found = await examined(tmp_path, text, UP_KEY=KEY)
    assert found["up"].status == "problem"
    assert "base_url" in found["up"].fix
    assert found["demo"].status == "ok"


async def test_an_upstream_that_ignores_tools_is_a_problem(tmp_path: Path) -> None:
    async with ModelServer() as server:
        lists(server, "m")
        server.script(CHAT, streamed("openai", says("I cannot read files.")))
        found = await examined(tmp_path, upstream(server), UP_KEY=KEY)
    assert found["up tools"].status == "problem"
    assert "without calling the tool: I cannot read files." in found["up tools"].text
    assert "text_calls" in found["up tools"].fix


async def test_wrong_arguments_and_an_ignored_result_are_problems(tmp_path: Path) -> None:
    async with ModelServer() as server:
        lists(server, "m")
        server.script(CHAT, streamed("openai", call("read_file", '{"file":1}')), streamed("openai", says("heron")))
        wrong = await examined(tmp_path, upstream(server), UP_KEY=KEY)
        server.script(CHAT, streamed("openai", call("read_file", '{"path":"word.txt"}')), streamed("openai", says("?")))
        ignored = await examined(tmp_path, upstream(server), UP_KEY=KEY)
    assert 'wrong arguments: {"file":1}' in wrong["up tools"].text
    assert "did not use its result: ?" in ignored["up tools"].text


async def test_an_upstream_without_a_list_of_models_is_still_tried(tmp_path: Path) -> None:
    async with ModelServer() as server:
        reads_the_word(server)
        text = upstream(server) + 'models = ["m"]\n'
        found = await examined(tmp_path, text, UP_KEY=KEY)
    assert (found["up key"].status, found["up tools"].status) == ("warning", "ok")


async def test_a_configured_model_that_the_upstream_does_not_list_is_a_warning(tmp_path: Path) -> None:
    async with ModelServer() as server:
        lists(server, "real")
        found = await examined(tmp_path, upstream(server) + 'models = ["typo"]\n', offline=True, UP_KEY=KEY)
    assert (found["up key"].status, found["up key"].text) == ("warning", "the upstream does not list typo")
    assert "real" in found["up key"].fix


async def test_an_upstream_that_hangs_hides_no_other_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "LIST_LIMIT", 0.1)
    monkeypatch.setattr(backends, "TRIP_LIMIT", 0.3)
    async with ModelServer() as server:
        server.default(MODELS, Answer(chunks=[Hang()]))
        server.default(CHAT, Answer(chunks=[Hang()]))
        found = await examined(tmp_path, upstream(server) + 'models = ["m"]\n', UP_KEY=KEY)
    assert [found[name].status for name in ("up", "up key", "up tools", "demo")] == ["ok", "warning", "problem", "ok"]
    assert "0.3 s" in found["up tools"].text


async def test_a_refused_request_says_why(tmp_path: Path) -> None:
    refusal = Answer(status=402, body=b'{"error":{"message":"no credit left","code":"insufficient_quota"}}')
    async with ModelServer() as server:
        lists(server, "m")
        server.script(CHAT, refusal)
        found = await examined(tmp_path, upstream(server), UP_KEY=KEY)
    assert found["up tools"].status == "problem"
    assert "no credit left" in found["up tools"].text
    assert "credit" in found["up tools"].fix
