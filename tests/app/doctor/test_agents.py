"""What the doctor finds out about coding agents: they are started, asked once, and ended."""

import json
import os
import sys
from pathlib import Path

from tests.app.doctor.support import examined

AGENT = """
import json, sys
request = json.loads(sys.stdin.readline())
about = {"name": "tiny", "title": "Tiny Agent", "version": "1.2.3"}
answer = {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": {}}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)
sys.stdin.read()
"""
HANGS = "import os, pathlib, time; pathlib.Path('{}').write_text(str(os.getpid())); time.sleep(600)"


def agents(**scripts: str) -> str:
    """Return a configuration with agents that run these scripts, and no time for those that hang."""
    commands = {name: json.dumps([sys.executable, "-c", script]) for name, script in scripts.items()}
    tables = [f"[acp.agents.{name}]\ncommand = {command}\n" for name, command in commands.items()]
    return "\n".join(["[server]\nport = 0\n[acp]\nstart_timeout = 1.5", *tables])


async def test_each_agent_is_started_and_a_bad_one_does_not_hide_the_others(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = agents(good=AGENT, hangs=HANGS.format(pid), crashes="raise SystemExit('no Node.js here')")
    found = await examined(tmp_path, text)
    assert found["acp/good"].status == "ok"
    assert found["acp/good"].text.startswith("Tiny Agent 1.2.3 (")
    assert found["acp/hangs"].status == found["acp/crashes"].status == "problem"
    assert "no Node.js here" in found["acp/crashes"].text
    assert "1.5 seconds" in found["acp/hangs"].text
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return
    raise AssertionError("the agent that hangs was not ended")


async def test_agents_that_are_not_installed_are_listed_once(tmp_path: Path) -> None:
    found = await examined(tmp_path)
    assert found["others"].status == "skipped"
    assert "opencode" in found["others"].text
    assert [name for name in found if name.startswith("acp/")] == []


async def test_an_agent_gets_none_of_our_keys_and_its_output_shows_none(tmp_path: Path) -> None:
    leaks = "import os, sys; sys.exit('keys: ' + os.environ.get('TIELINE_KEY', 'none') + ' ' + os.environ['UP_TOKEN'])"
    found = await examined(tmp_path, agents(leaks=leaks), TIELINE_KEY="gateway-secret", UP_TOKEN="token-of-the-user")
    assert "keys: none ***" in found["acp/leaks"].text
