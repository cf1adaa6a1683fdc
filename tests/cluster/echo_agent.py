"""A minimal ACP agent: it repeats what the user says."""

import json
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    while line := sys.stdin.readline():
        message = json.loads(line)
        result: dict[str, Any] = {}
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
        elif method == "session/new":
            result = {"sessionId": "session-1"}
        elif method == "session/prompt":
            words = "".join(part.get("text", "") for part in params["prompt"])
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"You said: {words}"}}
            send({"method": "session/update", "params": {"sessionId": params["sessionId"], "update": update}})
            result = {"stopReason": "end_turn"}
        if method and "id" in message:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
