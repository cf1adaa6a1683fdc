"""The gateway as a process of its own with an agent at work: however it ends, nothing of the agent is left."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, configured, serving
from tests.net.programs import LIVE, STUBBORN, Presence, gone, python

AGENT = (
    LIVE
    + """
    import json
    child = [*sys.orig_argv[:4], sys.argv[2], sys.argv[1]]
    def answer(message):
        if message.get("method") == "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}}
        if message.get("method") == "session/new":
            return {"sessionId": "one"}
        # A turn that never ends, with something at work that nobody knows of.
        subprocess.Popen(child, start_new_session=True)
        global connection
        connection = live()
    for line in sys.stdin:
        message = json.loads(line)
        if result := answer(message):
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
)

DEAF = """
    import signal
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
"""

QUESTION = json.dumps({"model": "acp/test", "messages": [{"role": "user", "content": "Hi"}]})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds everything that comes of a program")
@pytest.mark.parametrize("agent", [AGENT, DEAF + AGENT + "    while True: signal.pause()"], ids=["polite", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_nothing_of_an_agent_outlives_the_gateway(tmp_path: Path, number: signal.Signals, agent: str) -> None:
    with Presence() as presence:
        argv = python(agent, presence.port, *python(STUBBORN)[-1:])
        configured(tmp_path, f"[acp.agents.test]\ncommand = {json.dumps(argv)}\n")
        async with asyncio.timeout(WAIT):
            with serving(tmp_path) as (process, port):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                request = (
                    f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(QUESTION)}\r\n"
                )
                writer.write(f"{request}\r\n{QUESTION}".encode())
                both = await presence.next(), await presence.next()
                process.send_signal(number)
                for one in both:
                    await gone(one)
                writer.close()
