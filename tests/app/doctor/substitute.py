"""A client that runs as a program: it sends the prompt to the gateway, and runs the tools that the model calls.

    python substitute.py MODE PROMPT

It finds the gateway in SUBSTITUTE_URL and SUBSTITUTE_KEY. The mode says how it goes wrong; `good` does not.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

TOOLS = {"read_file": ["path"], "write_file": ["path", "content"]}


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": {one: {"type": "string"} for one in names}},
            },
        }
        for name, names in TOOLS.items()
    ]
    body = json.dumps({"model": "demo/scripted", "messages": messages, "tools": tools}).encode()
    headers = {"authorization": f"Bearer {os.environ['SUBSTITUTE_KEY']}", "content-type": "application/json"}
    url = f"{os.environ['SUBSTITUTE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:  # noqa: S310 - the gateway of the test
        message: dict[str, Any] = json.load(response)["choices"][0]["message"]
    return message


def execute(name: str, arguments: dict[str, str], mode: str) -> str:
    path = Path(arguments["path"])
    if name == "read_file":
        return path.read_text()
    path.write_text("" if mode == "lazy" else arguments["content"])
    return "done"


def converse(mode: str, prompt: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    while calls := (reply := ask(messages)).get("tool_calls"):
        if mode == "crash":
            sys.exit("it broke")
        messages.append(reply)
        for call in calls:
            result = execute(call["function"]["name"], json.loads(call["function"]["arguments"]), mode)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    sys.stdout.write(f"{reply['content']}\n")


def main(mode: str, prompt: str) -> None:
    """Do what the mode says."""
    if mode == "--version":
        sys.stdout.write("substitute 4.5.6.\n")
        return
    if mode == "hang":
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        Path(os.environ["PID_FILE"]).write_text(str(sleeper.pid))
        time.sleep(600)
    if mode == "leak":
        sys.stderr.write(f"key {os.environ['SUBSTITUTE_KEY']} and sk-abcdefghijklmnopqrstuvwxyz\n")
        names = ("ANTHROPIC_API_KEY", "UP_TOKEN", "XDG_CONFIG_HOME")
        sys.stdout.write(f"found {[name for name in names if name in os.environ]} in {os.environ['HOME']}\x1b[2J\n")
        sys.stdout.write(f"PWD is right: {os.environ['PWD'] == str(Path.cwd())}\n")
    if mode != "silent":
        converse(mode, prompt)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[-1])
