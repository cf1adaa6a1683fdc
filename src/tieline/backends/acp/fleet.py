"""The agent processes: started on demand, ended when idle.

Conversations with the same agent share a process. A conversation whose client offers tools has a process of its own,
because some agents (OpenCode, Kilo, Hermes) keep one set of tools for all sessions of a process: one conversation could
call the tools of another, or lose its own. For the same reason only conversations with the same folder and the same MCP
servers share a process.
"""

import asyncio
from typing import NamedTuple

from tieline.backends.acp.agent import Agent, OnEnd
from tieline.backends.acp.catalogue import AgentSpec
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.backends.acp.workplace import Workplace
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

IDLE = "was ended because it was idle"


class ProcessKey(NamedTuple):
    """Identifies an agent process.

    If `conversation` is 0, all conversations with the same agent and workplace share the process. Otherwise, the
    process serves only the conversation with that number.
    """

    agent: str
    workplace: Workplace
    conversation: int = 0


class Fleet:
    """All agent processes. Their number is limited: to make room, the one that has been idle longest is ended."""

    def __init__(self, settings: AcpBackendSettings, tasks: Tasks, on_end: OnEnd) -> None:
        self._settings = settings
        self._on_end = on_end
        self._tasks = tasks
        self._current: dict[ProcessKey, Agent] = {}
        self._starting: dict[ProcessKey, asyncio.Task[Agent | GatewayError]] = {}
        self._launching = 0
        """Number of processes that are being started."""
        self._all: dict[Agent, ProcessKey] = {}
        """Every agent whose process may still exist, the most recently used last."""
        self._idle: dict[Agent, asyncio.TimerHandle] = {}

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The running agents."""
        return tuple(agent for agent in self._all if not agent.is_over)

    def is_running(self, agent: str) -> bool:
        """Return whether there is a process of this agent that accepts turns."""
        return any(process_key.agent == agent and _takes_turns(one) for process_key, one in self._current.items())

    async def take(self, spec: AgentSpec, command: tuple[str, ...], process_key: ProcessKey) -> Agent:
        """Return the agent process with this key, and start it if necessary. Raise GatewayError if the start fails.

        The caller has to call `give_back` when the turn is over.
        """
        agent = self._current.get(process_key)
        if agent is None or not _takes_turns(agent):
            agent = await self._started(spec, command, process_key)
        self._keep(agent)
        agent.uses += 1
        return agent

    def end_process(self, process_key: ProcessKey) -> None:
        """End the process with this key if it serves a single conversation and is not in use."""
        agent = self._current.get(process_key)
        if process_key.conversation and agent is not None and not agent.uses:
            del self._current[process_key]
            self._dismiss(agent, IDLE)

    def give_back(self, agent: Agent) -> None:
        """Record that a turn no longer uses an agent.

        Once no turn uses it, its process is ended: at once if it is retiring, otherwise after `idle_after` seconds.
        """
        agent.uses -= 1
        if agent.uses:
            return
        if agent.is_over:
            self._dismiss(agent, IDLE)
        elif agent.is_retiring:
            agent.retire()
        else:
            self._end_when_idle(agent)

    def leave_workspace(self, name: str) -> None:
        """End all processes in a workspace, because it has been removed. Requests there must have been stopped."""
        for process_key, starting in list(self._starting.items()):
            if process_key.workplace.workspace == name:
                starting.cancel()
        for agent, process_key in list(self._all.items()):
            if process_key.workplace.workspace == name:
                self._dismiss(agent, "was ended because the workspace was removed")

    async def aclose(self) -> None:
        """End all processes and wait until they are gone."""
        starting = list(self._starting.values())
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        ending = [self._dismiss(agent, "was ended with the gateway") for agent in list(self._all)]
        await asyncio.gather(*ending, return_exceptions=True)

    async def _started(self, spec: AgentSpec, command: tuple[str, ...], process_key: ProcessKey) -> Agent:
        """Start a process once for all requests that wait for it. If one of them is cancelled, the start continues."""
        starting = self._starting.get(process_key)
        if starting is None:
            starting = self._tasks.start(self._start(spec, command, process_key), f"starting {spec.id}")
            self._starting[process_key] = starting
            starting.add_done_callback(lambda _: self._starting.pop(process_key, None))
        agent = await asyncio.shield(starting)
        if isinstance(agent, GatewayError):
            raise agent
        return agent

    async def _start(self, spec: AgentSpec, command: tuple[str, ...], process_key: ProcessKey) -> Agent | GatewayError:
        """Start a process. Return the agent, or the error if the start fails.

        The error is returned rather than raised, because it would not be caught if all waiting requests were cancelled.
        """
        dead = self._current.pop(process_key, None)
        if dead is not None and dead.is_over:
            self._dismiss(dead, IDLE)
        try:
            await self._make_room()
        except GatewayError as error:
            return error
        self._launching += 1
        try:
            workplace = process_key.workplace
            host = self._settings.host(workplace.workspace)
            agent = await Agent.start(
                spec, command, self._settings, self._tasks, self._on_end, workplace.folder, host=host
            )
        except GatewayError as error:
            return error
        finally:
            self._launching -= 1
        self._current[process_key] = agent
        self._all[agent] = process_key
        self._end_when_idle(agent)
        return agent

    async def _make_room(self) -> None:
        limit = self._settings.processes
        while len(self._all) + self._launching >= limit:
            spare = next((agent for agent in self._all if agent in self._idle or agent.is_over), None)
            if spare is None:
                message = (
                    f"All {limit} agent processes are in use (`acp.processes`). A conversation whose client brings"
                    " tools needs a process of its own. Try again later."
                )
                raise GatewayError("overloaded", message, code="too_many_agents")
            await asyncio.wait([self._dismiss(spare, IDLE)])

    def _end_when_idle(self, agent: Agent) -> None:
        """End the process after `idle_after` seconds, unless a turn uses it before then."""
        self._all[agent] = self._all.pop(agent)
        loop = asyncio.get_running_loop()
        self._idle[agent] = loop.call_later(self._settings.idle_after, self._dismiss, agent, IDLE)

    def _keep(self, agent: Agent) -> None:
        timer = self._idle.pop(agent, None)
        if timer is not None:
            timer.cancel()

    def _dismiss(self, agent: Agent, why: str) -> asyncio.Task[None]:
        self._keep(agent)
        ending = agent.end(why)
        ending.add_done_callback(lambda _: self._gone(agent))
        return ending

    def _gone(self, agent: Agent) -> None:
        self._all.pop(agent, None)
        for process_key in [process_key for process_key, one in self._current.items() if one is agent]:
            del self._current[process_key]


def _takes_turns(agent: Agent) -> bool:
    return not agent.is_over and not agent.is_retiring
