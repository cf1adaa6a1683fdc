"""The agents that run: one process each, started when it is needed, ended when nobody needs it any more."""

import asyncio

from tieline.backends.acp.agent import Agent, OnEnd
from tieline.backends.acp.catalogue import AgentSpec
from tieline.backends.acp.terms import Terms
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

IDLE = "was ended because nobody needed it"


class Fleet:
    """Agents by their name. A cap bounds the processes: to start one more, one that idles is ended."""

    def __init__(self, terms: Terms, tasks: Tasks, on_end: OnEnd) -> None:
        self._terms = terms
        self._on_end = on_end
        self._tasks = tasks
        self._current: dict[str, Agent] = {}
        self._starting: dict[str, asyncio.Task[Agent | GatewayError]] = {}
        self._all: dict[Agent, None] = {}
        """Every agent whose process may still be there, the one that was used last at the end."""
        self._idle: dict[Agent, asyncio.TimerHandle] = {}

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Those that can be asked."""
        return tuple(agent for agent in self._all if not agent.is_over)

    def is_there(self, name: str) -> bool:
        """Whether the agent of this name runs, and takes turns."""
        agent = self._current.get(name)
        return agent is not None and not agent.is_over and not agent.is_retiring

    async def take(self, spec: AgentSpec, command: tuple[str, ...]) -> Agent:
        """The agent of this name, running and introduced; whoever takes it gives it back. Raises GatewayError."""
        agent = self._current[spec.id] if self.is_there(spec.id) else await self._started(spec, command)
        self._wake(agent)
        agent.uses += 1
        return agent

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

    async def _started(self, spec: AgentSpec, command: tuple[str, ...]) -> Agent:
        """Start it once for all who wait; whoever leaves does not take it from the others."""
        starting = self._starting.get(spec.id)
        if starting is None:
            starting = self._tasks.start(self._start(spec, command), f"starting {spec.id}")
            self._starting[spec.id] = starting
            starting.add_done_callback(lambda _: self._starting.pop(spec.id, None))
        agent = await asyncio.shield(starting)
        if isinstance(agent, GatewayError):
            raise agent
        return agent

    async def _start(self, spec: AgentSpec, command: tuple[str, ...]) -> Agent | GatewayError:
        """The agent, or what went wrong: the task that runs this belongs to nobody who could catch it."""
        dead = self._current.pop(spec.id, None)
        if dead is not None and dead.is_over:
            self._dismiss(dead, IDLE)
        try:
            await self._make_room()
            agent = await Agent.start(spec, command, self._terms, self._tasks, self._on_end)
        except GatewayError as error:
            return error
        self._current[spec.id] = agent
        self._all[agent] = None
        self._rest(agent)
        return agent

    async def _make_room(self) -> None:
        while len(self._all) + len(self._starting) > self._terms.processes:
            spare = next((agent for agent in self._all if agent in self._idle or agent.is_over), None)
            if spare is None:
                message = f"{len(self._all)} agents are at work, and more may not run at once. Ask again later."
                raise GatewayError("overloaded", message, code="too_many_agents")
            await asyncio.wait([self._dismiss(spare, IDLE)])

    def _rest(self, agent: Agent) -> None:
        """Nobody needs it now: it is ended unless somebody does in time."""
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
        ending.add_done_callback(lambda _: self._all.pop(agent, None))
        return ending
