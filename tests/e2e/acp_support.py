"""The real gateway with coding agents behind it, the official clients in front, and a person at the inbox.

The agent is the scripted one: a prompt is its program. Since it takes a second to start, the tests of a module share a
gateway, in a loop of their own; what has to be set otherwise gets a gateway of its own.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import pytest_asyncio

from tests.backends.acp_support import AGENTS, ROOT, tool, until
from tests.catalogue.serving import listening
from tests.e2e.cursor_support import Stand as CursorStand
from tests.e2e.cursor_support import Talk
from tests.e2e.tools_support import KEY, PATIENCE
from tests.e2e.tools_support import Stand as ToolsStand
from tieline.app.build.application import build
from tieline.app.config import (
    AcpSettings,
    AgentSettings,
    ClientSettings,
    Config,
    InboxSettings,
    ParkingSettings,
    ToolSettings,
)
from tieline.app.lazy_backend import LazyBackend
from tieline.backends.acp.backend import AcpBackend
from tieline.model.request import ToolSpec

Dialect = Literal["openai", "anthropic"]

MODEL = "acp/scripted"
SHARED = pytest.mark.asyncio(loop_scope="module")
"""For tests that share the gateway of their module."""

LOOK = tool("look_up", b'{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}')
COUNT = tool("count")
ASK = tool(
    "ask_question",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "question": {"type": "string"},
                "options": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["question"],
        }
    ).encode(),
)


class Stand(ToolsStand):
    """A running gateway with agents."""

    def talk(self, dialect: Dialect, tools: Sequence[ToolSpec] = (), *, model: str = MODEL, **options: Any) -> Talk:
        """A new conversation of a client."""
        return CursorStand.talk(cast(Any, self), dialect, tools, model=model, **options)

    @property
    def backend(self) -> AcpBackend:
        """The backend of the agents."""
        late = self.app.backends["acp"]
        assert isinstance(late, LazyBackend)
        backend = late.backend.now()
        assert isinstance(backend, AcpBackend)
        return backend

    @property
    def pids(self) -> list[int]:
        """The agents that run."""
        return [agent.pid for agent in self.backend._opener.fleet.agents]

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """In turns that begin now, calls made at once are one leg however far apart they come on a slow machine."""
        opener = self.backend._opener
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opener, "_settings", replace(opener._settings, batch_wait=1.5))
            yield

    async def gone(self, pid: int) -> None:
        """Wait until the gateway knows that this process of an agent has ended."""
        await until(lambda: pid not in self.pids)

    async def idle(self) -> None:
        """Wait until no session has a turn under way: a client that left has been missed."""
        await until(lambda: not any(session.is_busy for session in self.backend._opener.sessions))


def scripted(*arguments: str) -> AgentSettings:
    """The scripted agent, as a user would configure it."""
    command = (sys.executable, str(AGENTS / "scripted.py"), *arguments)
    return AgentSettings(command=command, title="Scripted", login="scripted login", env={"PYTHONPATH": str(ROOT)})


def plain(*arguments: str) -> AgentSettings:
    """An agent that starts at once, and knows nothing but its scenario."""
    return AgentSettings(command=(sys.executable, "-I", "-S", str(AGENTS / "faulty.py"), *arguments), title="Plain")


@asynccontextmanager
async def serving(
    home: Path,
    agents: Mapping[str, AgentSettings] | None = None,
    *,
    waits: float = 60.0,
    parking: ParkingSettings | None = None,
    tools: ToolSettings | None = None,
    **acp: Any,
) -> AsyncIterator[Stand]:
    """A stand whose user lives in `home` and has installed nothing; `waits` is for how long an ask does."""
    for folder in ("workspace", "bin"):
        (home / folder).mkdir(exist_ok=True)
    usual = {"scripted": scripted("--can", "http,load", "--memory", str(home / "memory"))}
    config = Config(
        inbox=InboxSettings(timeout=waits),
        parking=parking or ParkingSettings(),
        tools=tools or ToolSettings(),
        clients={
            "texts": ClientSettings(user_agent="shows-text*", activity="text"),
            "silent": ClientSettings(user_agent="shows-nothing*", activity="hidden"),
        },
        acp=AcpSettings(agents=agents or usual, workspace=str(home / "workspace"), **acp),
    )
    env = {"TIELINE_KEY": KEY, "HOME": str(home), "PATH": str(home / "bin"), "LANG": os.environ.get("LANG", "C.UTF-8")}
    async with AsyncExitStack() as stack:
        app = build(config, env)
        stack.push_async_callback(app.aclose)
        stand = Stand(app, await stack.enter_async_context(listening(app)), home / "workspace", home)
        for client in (stand.openai, stand.anthropic, stand.http):
            await stack.enter_async_context(client)
        yield stand


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    """The gateway that the tests of a module share."""
    async with serving(tmp_path_factory.mktemp("home")) as stand:
        yield stand


def ask(rule: Mapping[str, Any]) -> str:
    """The program of an agent that asks one thing, and says what it was answered."""
    form = {"properties": {"it": {"title": "Which one?", **rule}}, "required": ["it"]}
    return f"ask {json.dumps(form)}"


def answered(text: str) -> tuple[str, Any]:
    """What the scripted agent says it was answered."""
    action, _, rest = text.strip().rpartition("\n")[2].partition(" ")
    return action, json.loads(rest or "null")


async def leave_in_the_middle(stand: Stand, dialect: Dialect, model: str, words: str) -> None:
    """A client that takes the first piece of an answer and goes."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": words}], "stream": True}
    async with asyncio.timeout(PATIENCE):
        if dialect == "openai":
            stream: Any = await stand.openai.chat.completions.create(**asked)
        else:
            stream = await stand.anthropic.messages.create(**asked, max_tokens=100)
        await anext(aiter(stream))
        await stream.close()
