"""What tests of the ACP backend share: agents to talk to, a person to ask, and legs taken whole."""

import asyncio
import itertools
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.grammar import check
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.catalogue import AgentSpec
from tieline.backends.acp.session_store import SessionStorage
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.backends.acp.tool_bridge import StdioShim, ToolBridge
from tieline.model.content import Message, Part, Text, Thinking, ToolCall
from tieline.model.events import Activity, Event, Failed, Finished, Note, PartEnd
from tieline.model.inbox import Approval, ApprovalAnswer, InboxItem, PlanReview, Question, QuestionAnswer, ReviewAnswer
from tieline.model.ports import Host, Run
from tieline.model.request import Request, ToolSpec
from tieline.net.process.program import StopTimeouts

SOON = 60.0
"""Seconds in which everything here happens on the slowest of machines."""

AGENTS = Path(__file__).parent / "agents"
ROOT = Path(__file__).parents[2]
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


def scripted(*arguments: str, **more: Any) -> AgentSpec:
    """The scripted agent."""
    command = (sys.executable, str(AGENTS / "scripted.py"), *arguments)
    return AgentSpec(**{"id": "scripted", "title": "Scripted", "command": command, "login": "scripted login", **more})


def plain(*arguments: str, **more: Any) -> AgentSpec:
    """An agent of ours that knows nothing but what its scenario says."""
    command = (sys.executable, "-I", "-S", str(AGENTS / "faulty.py"), *arguments)
    return AgentSpec(**{"id": "plain", "title": "Plain", "command": command, **more})


class Person:
    """Somebody who answers what is asked, or nobody at all."""

    def __init__(self, *answers: Any, is_present: bool = False) -> None:
        self.is_present = is_present
        self.asked: list[InboxItem] = []
        self._answers = list(answers)
        self.is_asked = asyncio.Event()
        self.withdrawn = 0

    async def permit(self, ask: Approval) -> ApprovalAnswer:
        answer = await self._answer(ask, ApprovalAnswer(reason="nobody is there"))
        assert isinstance(answer, ApprovalAnswer)
        return answer

    async def review(self, ask: PlanReview) -> ReviewAnswer:
        answer = await self._answer(ask, ReviewAnswer(approved=False))
        assert isinstance(answer, ReviewAnswer)
        return answer

    async def fill(self, ask: Question) -> QuestionAnswer:
        answer = await self._answer(ask, QuestionAnswer(action="cancel"))
        assert isinstance(answer, QuestionAnswer)
        return answer

    async def _answer(self, ask: InboxItem, nobody: Any) -> Any:
        self.asked.append(ask)
        self.is_asked.set()
        answer = self._answers.pop(0) if self._answers else nobody
        if answer is not NEVER:
            return answer
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn += 1


NEVER = object()
"""The answer of somebody who thinks for ever."""

NOBODY = Host(Person())


class Talk:
    """One conversation, as a client holds it: the whole history goes with every request."""

    def __init__(self, backend: AcpBackend, model: str = "scripted", **request: Any) -> None:
        self.backend = backend
        self.model = model
        self.request = request
        self.messages: list[Message] = []

    async def ask(self, words: str, person: Person | None = None) -> "Reply":
        """Say something and take the whole answer into the history."""
        self.messages.append(user(words))
        run = await self.start(person)
        try:
            reply = await leg(run)
        finally:
            await run.aclose()
        self.heard(reply)
        return reply

    async def start(self, person: Person | None = None) -> Run:
        request = Request(model=self.model, messages=tuple(self.messages), **self.request)
        return await self.backend.start(request, Host(person or Person()))

    def heard(self, reply: "Reply") -> None:
        if reply.parts:
            self.messages.append(Message(role="assistant", parts=tuple(reply.parts)))


class Reply:
    """A leg, whole."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)

    @property
    def parts(self) -> list[Part]:
        return [event.part for event in self.events if isinstance(event, PartEnd)]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def thoughts(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Thinking))

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def activities(self) -> list[Activity]:
        return [event for event in self.events if isinstance(event, Activity)]

    @property
    def notes(self) -> dict[str, str]:
        return {event.kind: event.message for event in self.events if isinstance(event, Note)}

    @property
    def failed(self) -> Failed:
        ending = self.events[-1]
        assert isinstance(ending, Failed), ending
        return ending

    @property
    def reason(self) -> str:
        ending = self.events[-1]
        assert isinstance(ending, Finished), ending
        return ending.reason


async def leg(run: Run) -> Reply:
    """The next leg of a run, which obeys the grammar."""
    async with asyncio.timeout(SOON):
        events = [event async for batch in run.leg() for event in batch]
    check(events)
    return Reply(events)


def user(words: str, *parts: Part) -> Message:
    return Message(role="user", parts=(Text(text=words), *parts))


def tool(name: str, schema: bytes = b'{"type":"object","properties":{}}', **more: Any) -> ToolSpec:
    return ToolSpec(name=name, description=f"The client's {name}", schema=schema, **more)


@asynccontextmanager
async def serving(
    *specs: AgentSpec, tools: bool = False, storage: SessionStorage | None = None, **terms: Any
) -> AsyncIterator[AcpBackend]:
    """A backend with these agents; every wait in it is short, and no process outlives it."""
    numbers = itertools.count(1)
    usual: dict[str, Any] = {
        "cwd": str(ROOT / "tests"),
        "env": ENV,
        "cancel_within": SOON,
        "settle": 0.01,
        "batch_wait": 0.2,
        "patience": StopTimeouts(eof=0.2, term=0.2, kill=SOON),
    }
    bridge = ToolBridge(mint_token=lambda: secrets.token_hex(16), shim=StdioShim(sys.executable)) if tools else None
    backend = AcpBackend(
        {spec.id: spec for spec in specs},
        AcpBackendSettings(**{**usual, **terms}),
        which=shutil.which,
        mint_call=lambda: f"call_{next(numbers)}",
        mint_leg=lambda: f"leg_{next(numbers)}",
        bridge=bridge,
        storage=storage,
    )
    try:
        yield backend
    finally:
        async with asyncio.timeout(SOON):
            await backend.aclose()


def group_is_gone(group: int) -> bool:
    """Whether nothing that runs is left of a process group; the dead may wait for somebody to bury them."""
    if not Path("/proc/self/stat").exists():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = process.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state != "Z":
            return False
    return True


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that happens soon."""
    async with asyncio.timeout(SOON):
        while not is_so():  # noqa: ASYNC110 - of processes and of what others keep nobody tells
            await asyncio.sleep(0.01)
