"""The agent processes: started when they are needed, ended when they are not.

Conversations with one agent share a process, except those that bring tools of their client: some agents know the tools
of all sessions of a process by one name (OpenCode, Kilo, Hermes), so one conversation could call, or lose, the tools of
another. Each of these has a process to itself. For the same reason only conversations with the same folder and the same
MCP servers share one.
"""

import asyncio
from typing import NamedTuple

from tieline.backends.acp.agent import Agent, OnEnd
from tieline.backends.acp.catalogue import AgentSpec
from tieline.backends.acp.settings import Terms
from tieline.backends.acp.workplace import Workplace
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

IDLE = "was ended because it was idle"


class Lane(NamedTuple):
    """Who shares a process: all conversations with an agent at a workplace, or only the one that has this number."""

    agent: str
    workplace: Workplace
    conversation: int = 0


class Fleet:
    """The processes by lane. Their number is bounded: to start one more, the one that idles longest is ended."""

    def __init__(self, terms: Terms, tasks: Tasks, on_end: OnEnd) -> None:
        self._terms = terms
        self._on_end = on_end
        self._tasks = tasks
        self._current: dict[Lane, Agent] = {}
        self._starting: dict[Lane, asyncio.Task[Agent | GatewayError]] = {}
        self._launching = 0
        """How many of them have room and are being started."""
        self._all: dict[Agent, None] = {}
        """Every agent whose process may still exist, the one used last at the end."""
        self._idle: dict[Agent, asyncio.TimerHandle] = {}

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Those that can be asked."""
        return tuple(agent for agent in self._all if not agent.is_over)

    def is_running(self, agent: str) -> bool:
        """Whether some process of this agent takes turns."""
        return any(lane.agent == agent and _takes_turns(one) for lane, one in self._current.items())

    async def take(self, spec: AgentSpec, command: tuple[str, ...], lane: Lane) -> Agent:
        """The agent of this lane, running and introduced; the caller gives it back. Raises GatewayError."""
        agent = self._current.get(lane)
        if agent is None or not _takes_turns(agent):
            agent = await self._started(spec, command, lane)
        self._wake(agent)
        agent.uses += 1
        return agent

    def end_lane(self, lane: Lane) -> None:
        """A conversation is over: end the process that it had to itself, unless it is in use."""
        agent = self._current.get(lane)
        if lane.conversation and agent is not None and not agent.uses:
            del self._current[lane]
            self._dismiss(agent, IDLE)

    def give_back(self, agent: Agent) -> None:
        """A turn is over."""
        agent.uses -= 1
        if agent.uses:
            return
        if agent.is_over:
            self._dismiss(agent, IDLE)
        elif agent.is_retiring:
            agent.retire()
        else:
            self._rest(agent)

    async def aclose(self) -> None:
        """End all of them; when this returns they are gone."""
        starting = list(self._starting.values())
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        ending = [self._dismiss(agent, "was ended with the gateway") for agent in list(self._all)]
        await asyncio.gather(*ending, return_exceptions=True)

    async def _started(self, spec: AgentSpec, command: tuple[str, ...], lane: Lane) -> Agent:
        """Start it once for all who wait; one that leaves does not stop it for the others."""
        starting = self._starting.get(lane)
        if starting is None:
            starting = self._tasks.start(self._start(spec, command, lane), f"starting {spec.id}")
            self._starting[lane] = starting
            starting.add_done_callback(lambda _: self._starting.pop(lane, None))
        agent = await asyncio.shield(starting)
        if isinstance(agent, GatewayError):
            raise agent
        return agent

    async def _start(self, spec: AgentSpec, command: tuple[str, ...], lane: Lane) -> Agent | GatewayError:
        """The agent, or what went wrong: nobody could catch what the task that runs this raises."""
        dead = self._current.pop(lane, None)
        if dead is not None and dead.is_over:
            self._dismiss(dead, IDLE)
        try:
            await self._make_room()
        except GatewayError as error:
            return error
        self._launching += 1
        try:
            folder = lane.workplace.folder
            agent = await Agent.start(spec, command, self._terms, self._tasks, self._on_end, folder)
        except GatewayError as error:
            return error
        finally:
            self._launching -= 1
        self._current[lane] = agent
        self._all[agent] = None
        self._rest(agent)
        return agent

    async def _make_room(self) -> None:
        most = self._terms.processes
        while len(self._all) + self._launching >= most:
            spare = next((agent for agent in self._all if agent in self._idle or agent.is_over), None)
            if spare is None:
                message = (
                    f"All {most} agent processes are in use (`acp.processes`); a conversation that brings tools of its"
                    " client needs a process of its own. Ask again later."
                )
                raise GatewayError("overloaded", message, code="too_many_agents")
            await asyncio.wait([self._dismiss(spare, IDLE)])

    def _rest(self, agent: Agent) -> None:
        """It is idle: it is ended unless it is used again in time."""
        self._all.pop(agent, None)
        self._all[agent] = None
        loop = asyncio.get_running_loop()
        self._idle[agent] = loop.call_later(self._terms.idle_after, self._dismiss, agent, IDLE)

    def _wake(self, agent: Agent) -> None:
        timer = self._idle.pop(agent, None)
        if timer is not None:
            timer.cancel()

    def _dismiss(self, agent: Agent, why: str) -> asyncio.Task[None]:
        self._wake(agent)
        ending = agent.end(why)
        ending.add_done_callback(lambda _: self._gone(agent))
        return ending

    def _gone(self, agent: Agent) -> None:
        self._all.pop(agent, None)
        for lane in [lane for lane, one in self._current.items() if one is agent]:
            del self._current[lane]


def _takes_turns(agent: Agent) -> bool:
    return not agent.is_over and not agent.is_retiring
