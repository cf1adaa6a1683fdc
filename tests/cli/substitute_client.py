"""A substitute for a client program. Its arguments say what it does; it reports one JSON value per line."""

import json
import os
import signal
import sys
import urllib.request
from pathlib import Path


def report(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")  # signal handlers report as well, so there must be no buffer


def show() -> None:
    """Report the arguments, the environment, and the files in the private folder."""
    settings = Path(sys.argv[sys.argv.index("--settings") + 1])
    folder = settings.parent
    modes = {path.name: f"{path.stat().st_mode & 0o777:o}" for path in (folder, settings)}
    report(arguments=sys.argv[1:], env=dict(os.environ), settings=json.loads(settings.read_text()), modes=modes)


def ask() -> None:
    """Send a message to the gateway, and report the answer."""
    url, token = os.environ["ANTHROPIC_BASE_URL"], os.environ["ANTHROPIC_AUTH_TOKEN"]
    message = {"role": "user", "content": "say hello"}
    body = {"model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 100, "messages": [message]}
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310 - loopback
        report(status=response.status, text=json.load(response)["content"][0]["text"])


def wait() -> None:
    """Report every signal and every line of input. End at the line `end`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH, signal.SIGCONT):
        signal.signal(number, lambda number, _: report(signal=signal.Signals(number).name))
    report(pid=os.getpid(), tty=[os.isatty(stream) for stream in (0, 1, 2)])
    while (line := sys.stdin.readline().strip()) != "end":
        report(line=line, size=list(os.get_terminal_size(0)) if os.isatty(0) else None)


def main() -> None:
    """Do what the last arguments say."""
    for what in sys.argv[1:]:
        if what in ("show", "ask", "wait"):
            {"show": show, "ask": ask, "wait": wait}[what]()
        elif what.startswith("exit="):
            sys.exit(int(what.removeprefix("exit=")))
        elif what.startswith("kill="):
            os.kill(os.getpid(), int(what.removeprefix("kill=")))
        elif what == "sleep":
            report(pid=os.getpid(), folder=sys.argv[sys.argv.index("--settings") + 1])
            signal.pause()


main()
