"""A minimal ACP agent for `tests/walk.py`: in every turn it asks for one permission, when it gets a signal to do so.

    python walk_agent.py <folder>

Signals are empty files in the folder. When it is prompted, the agent creates `ready`, waits for `ask` and sends its
permission request. It creates `answered` when it has received the answer, and waits for `finish` before it ends the
turn.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
POLL_SECONDS = 0.005


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def wait_for(signal: Path) -> None:
    while not signal.exists():
        time.sleep(POLL_SECONDS)
    signal.unlink()


def receive_answer(request_id: str) -> None:
    while line := sys.stdin.readline():
        message = json.loads(line)
        if message.get("id") == request_id and "method" not in message:
            return


def run_turn(session: str, turn: int, folder: Path) -> None:
    call = {"toolCallId": f"call-{turn}", "title": "Run make", "kind": "execute", "rawInput": {"command": "make"}}
    request_id = f"permission-{turn}"
    (folder / "ready").touch()
    wait_for(folder / "ask")
    send(
        {
            "id": request_id,
            "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": call, "options": OPTIONS},
        }
    )
    receive_answer(request_id)
    (folder / "answered").touch()
    wait_for(folder / "finish")
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Done."}}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def main() -> None:
    folder = Path(sys.argv[1])
    sessions = turns = 0
    while line := sys.stdin.readline():
        message = json.loads(line)
        result: dict[str, Any] = {}
        method = message.get("method")
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
        elif method == "session/new":
            sessions += 1
            result = {"sessionId": f"session-{sessions}"}
        elif method == "session/prompt":
            turns += 1
            run_turn(message["params"]["sessionId"], turns, folder)
            result = {"stopReason": "end_turn"}
        if method and "id" in message:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
