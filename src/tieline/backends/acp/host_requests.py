"""Files and terminals for an agent that works through us: each thing it asks for is done and answered."""

from collections.abc import Callable, Coroutine
from typing import Any

from tieline.backends.acp.agent import Agent
from tieline.backends.acp.host_services import Command, Files, Terminals
from tieline.backends.acp.settings import Terms
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.tasks import Tasks
from tieline.wire.acp import facts
from tieline.wire.acp.schema import ExitStatus

Asked = facts.FileReadAsked | facts.FileWriteAsked | facts.TerminalAsked | facts.TerminalUseAsked


class Serving:
    """Does for one agent what it asks for; `shown` hears what a terminal shows."""

    def __init__(
        self,
        agent: Agent,
        terms: Terms,
        tasks: Tasks,
        owned: set[str],
        shown: Callable[[str, str], None],
    ) -> None:
        """`owned` are the terminals of the session, which outlive a turn."""
        self._agent = agent
        self._files = terms.files
        self._terminals = terms.terminals
        self._tasks = tasks
        self._owned = owned
        self._shown = shown

    def serve(self, asked: Asked, host: Host) -> None:
        """Do what was asked, beside everything else that goes on."""
        self._tasks.start(self._served(asked, host), "serving an agent")

    async def _served(self, asked: Asked, host: Host) -> None:
        machine = self._agent.machine
        try:
            await self._work(asked, host)
        except KeyError:
            machine.refuse(asked.ask, "there is no such terminal")
        except GatewayError as error:
            machine.refuse(asked.ask, error.message)
        except (OSError, ValueError) as error:
            machine.refuse(asked.ask, str(error))
        self._agent.push()

    def _work(self, asked: Asked, host: Host) -> Coroutine[Any, Any, None]:
        match asked:
            case facts.FileReadAsked() if self._files is not None:
                return self._read(asked, self._files, host)
            case facts.FileWriteAsked() if self._files is not None:
                return self._write(asked, self._files, host)
            case facts.TerminalAsked() if self._terminals is not None:
                return self._create(asked, self._terminals, host)
            case facts.TerminalUseAsked() if self._terminals is not None:
                return self._use(asked, self._terminals)
            case _:
                raise GatewayError("forbidden", "that is not offered here")

    async def _read(self, asked: facts.FileReadAsked, files: Files, host: Host) -> None:
        try:
            content = await files.read(asked.path, asked.line, asked.limit, host)
        except FileNotFoundError:
            # Agents read before they create; told that there is nothing, some give up.
            content = ""
        self._agent.machine.answer_file(asked.ask, content)

    async def _write(self, asked: facts.FileWriteAsked, files: Files, host: Host) -> None:
        await files.write(asked.path, asked.content, host)
        self._agent.machine.answer_done(asked.ask)

    async def _create(self, asked: facts.TerminalAsked, terminals: Terminals, host: Host) -> None:
        command = Command(asked.command, asked.args, dict(asked.env), asked.cwd, asked.limit)
        terminal = await terminals.create(command, host)
        self._owned.add(terminal)
        self._agent.machine.answer_terminal(asked.ask, terminal)

    async def _use(self, asked: facts.TerminalUseAsked, terminals: Terminals) -> None:
        machine, terminal = self._agent.machine, asked.terminal
        if terminal not in self._owned:
            raise KeyError(terminal)
        match asked.use:
            case "output":
                shown = await terminals.output(terminal)
                self._shown(terminal, shown.output)
                ended = shown.ended
                status = ExitStatus(exit_code=ended.status, signal=ended.signal) if ended is not None else None
                machine.answer_output(asked.ask, shown.output, shown.is_cut, status)
            case "wait":
                ended = await terminals.wait(terminal)
                self._shown(terminal, (await terminals.output(terminal)).output)
                machine.answer_exit(asked.ask, ExitStatus(exit_code=ended.status, signal=ended.signal))
            case "kill":
                await terminals.kill(terminal)
                machine.answer_done(asked.ask)
            case "release":
                self._shown(terminal, (await terminals.output(terminal)).output)
                await terminals.release(terminal)
                self._owned.discard(terminal)
                machine.answer_done(asked.ask)
