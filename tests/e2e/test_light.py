"""What is loaded for what: the plain gateway and the small commands leave alone what they do not need."""

import json
import signal
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, ran, said, serving

HEAVY = (
    "google.protobuf",
    "h2",
    "hpack",
    "markdown_it",
    "mcp",
    "pygments",
    "rich",
    "sqlite3",
    "tieline.app.local_host",
    "tieline.backends.acp.backend",
    "tieline.backends.cursor.backend",
    "tieline.core.sessions.sessions",
    "tieline.net.h2.client",
    "tieline.net.process.program",
    "tieline.app.build.page",
    "tieline.sim",
    "psycopg",
    "tieline.app.database",
    "tieline.tools.toolbox",
    "tieline.web.api",
    "tieline.wire.acp",
    "tieline.wire.cursor",
)
"""What only the page, an account, an agent, a tool or a simulator needs."""

BEHIND = {"ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o", "CURSOR_API_KEY": "key-c"}
"""Two upstreams and an account, none of which is asked."""


def loaded(output: str) -> set[str]:
    """The modules that a command which tells them has loaded."""
    return set(json.loads(output.splitlines()[-1]))


def asked(port: int, path: str, question: object = None) -> bytes:
    with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
        body = None if question is None else json.dumps(question)
        connection.request("GET" if body is None else "POST", path, body, {"accept": "text/html"})
        response = connection.getresponse()
        assert response.status == 200
        return response.read()


def test_a_plain_answer_needs_nothing_heavy(tmp_path: Path) -> None:
    words = [{"role": "user", "content": "Hello"}]
    with serving(tmp_path, tells_loaded=True, **BEHIND) as (process, port):
        assert b"choices" in asked(port, "/v1/chat/completions", {"model": "demo/x", "messages": words})
        question = {"model": "demo/x", "max_tokens": 100, "messages": words, "stream": True}
        assert b"message_stop" in asked(port, "/v1/messages", question)
        assert asked(port, "/api/inbox")
        assert asked(port, "/metrics")
        process.send_signal(signal.SIGINT)
        modules = loaded(said(process))
    assert "tieline.demo.decision" in modules
    assert modules.isdisjoint(HEAVY)


def test_what_nobody_asks_for_is_not_loaded_at_all(tmp_path: Path) -> None:
    with serving(tmp_path, tells_loaded=True, **BEHIND) as (process, port):
        assert asked(port, "/healthz")
        process.send_signal(signal.SIGINT)
        modules = loaded(said(process))
    assert modules.isdisjoint((*HEAVY, "tieline.demo.decision"))


def test_the_page_loads_what_it_needs_and_no_accounts_or_agents(tmp_path: Path) -> None:
    with serving(tmp_path, tells_loaded=True) as (process, port):
        assert b"<!doctype html>" in asked(port, "/")
        assert b"demo/scripted" in asked(port, "/api/state")
        process.send_signal(signal.SIGINT)
        modules = loaded(said(process))
    assert {"tieline.app.build.page", "markdown_it", "tieline.web.api"} <= modules
    assert modules.isdisjoint(("google.protobuf", "h2", "mcp", "rich", "tieline.backends.acp.backend", "tieline.sim"))


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("models",), 0), (("agents",), 0), (("check-config",), 0), (("inbox", "--url", "http://127.0.0.1:9"), 1)],
    ids=lambda one: one[0] if isinstance(one, tuple) else None,
)
def test_a_small_command_loads_neither_the_server_nor_what_is_behind_it(
    arguments: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    done = ran(tmp_path, *arguments, tells_loaded=True)
    modules = loaded(done.stdout)
    assert done.returncode == status
    assert "tieline.app.config" in modules
    assert modules.isdisjoint((*HEAVY, "uvicorn", "uvloop"))


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("inbox", "--help"), ("chat", "--help")], ids=" ".join
)
def test_what_can_be_typed_is_told_without_the_program(arguments: tuple[str, ...], tmp_path: Path) -> None:
    modules = loaded(ran(tmp_path, *arguments, tells_loaded=True).stdout)
    assert {one for one in modules if one.startswith("tieline.")} == {
        "tieline.cli",
        "tieline.cli.main",
        "tieline.cli.chat",
        "tieline.cli.chat.arguments",
        "tieline.cli.inbox",
        "tieline.cli.inbox.arguments",
        "tieline.app",
        "tieline.app.lazy",
    }
    assert modules.isdisjoint(("asyncio", "msgspec"))
