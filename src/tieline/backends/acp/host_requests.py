"""Serves an agent's requests for files and terminals."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.host_services import HostFiles, HostTerminals, TerminalCommand
from tieline.backends.acp.settings import AgentHost
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.schema import ExitStatus

HostRequest = facts.FileReadRequested | facts.FileWriteRequested | facts.TerminalRequested | facts.TerminalUseRequested


class HostRequests:
    """Serves the requests for files and terminals that an agent sends during one turn."""

    def __init__(
        self,
        agent: Agent,
        host: AgentHost,
        tasks: Tasks,
        owned: set[str],
        shown: Callable[[str, str], None],
    ) -> None:
        """`owned` holds the names of the session's terminals, which may outlive the turn.

        `shown` is called with a terminal's name and its output whenever the agent reads the output, waits for the
        command to end, or releases the terminal.
        """
        self._agent = agent
        self._files = host.files
        self._terminals = host.terminals
        self._tasks = tasks
        self._owned = owned
        self._shown = shown
        self._running: dict[int, asyncio.Task[None]] = {}
        """The tasks that serve requests, by request number."""

    @property
    def is_busy(self) -> bool:
        """Whether the agent waits for a response."""
        return bool(self._running)

    def serve(self, request: HostRequest, host: Host) -> None:
        """Serve a request in a background task and send the response to the agent."""
        task = self._tasks.start(self._served(request, host), "serving a request from an agent")
        self._running[request.number] = task
        task.add_done_callback(lambda _: self._running.pop(request.number, None))

    def withdraw(self, number: int) -> None:
        """Stop serving a request that the agent has withdrawn. If the user is being asked about it, stop asking."""
        task = self._running.get(number)
        if task is not None:
            task.cancel()

    def cancel(self) -> None:
        """Refuse all requests that are being served, because the turn was cancelled."""
        for number in self._running:
            self.withdraw(number)
            self._agent.machine.refuse(number, "the turn was cancelled")
        self._agent.push()

    async def _served(self, request: HostRequest, host: Host) -> None:
        machine = self._agent.machine
        try:
            await self._work(request, host)
        except KeyError:
            machine.refuse(request.number, "there is no such terminal")
        except GatewayError as error:
            machine.refuse(request.number, error.message)
        except (OSError, ValueError) as error:
            machine.refuse(request.number, str(error))
        self._agent.push()

    def _work(self, request: HostRequest, host: Host) -> Coroutine[Any, Any, None]:
        match request:
            case facts.FileReadRequested() if self._files is not None:
                return self._read(request, self._files, host)
            case facts.FileWriteRequested() if self._files is not None:
                return self._write(request, self._files, host)
            case facts.TerminalRequested() if self._terminals is not None:
                return self._create(request, self._terminals, host)
            case facts.TerminalUseRequested() if self._terminals is not None:
                return self._use(request, self._terminals)
            case _:
                raise GatewayError("forbidden", "this is not offered")

    async def _read(self, request: facts.FileReadRequested, files: HostFiles, host: Host) -> None:
        try:
            content = await files.read(request.path, request.line, request.limit, host)
        except FileNotFoundError:
            # Agents read a file before they create it, and some give up if that fails.
            content = ""
        self._agent.machine.answer_file(request.number, content)

    async def _write(self, request: facts.FileWriteRequested, files: HostFiles, host: Host) -> None:
        await files.write(request.path, request.content, host)
        self._agent.machine.answer_done(request.number)

    async def _create(self, request: facts.TerminalRequested, terminals: HostTerminals, host: Host) -> None:
        command = TerminalCommand(request.command, request.args, dict(request.env), request.cwd, request.limit)
        terminal = await terminals.create(command, host)
        self._owned.add(terminal)
        self._agent.machine.answer_terminal(request.number, terminal)

    async def _use(self, request: facts.TerminalUseRequested, terminals: HostTerminals) -> None:
        machine, terminal = self._agent.machine, request.terminal
        if terminal not in self._owned:
            raise KeyError(terminal)
        match request.use:
            case "output":
                shown = await terminals.output(terminal)
                self._shown(terminal, shown.output)
                ended = shown.ended
                status = ExitStatus(exit_code=ended.status, signal=ended.signal) if ended is not None else None
                machine.answer_output(request.number, shown.output, shown.is_cut, status)
            case "wait":
                ended = await terminals.wait(terminal)
                self._shown(terminal, (await terminals.output(terminal)).output)
                machine.answer_exit(request.number, ExitStatus(exit_code=ended.status, signal=ended.signal))
            case "kill":
                await terminals.kill(terminal)
                machine.answer_done(request.number)
            case "release":
                self._shown(terminal, (await terminals.output(terminal)).output)
                await terminals.release(terminal)
                self._owned.discard(terminal)
                machine.answer_done(request.number)
