"""Installs coding agents from the web page, with the same commands as `tieline agents install`.

The command is fixed by the catalogue of agents. The page shows it in full, and sends back the command that the user
confirmed.
"""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from tieline.app.build.acp import acp_status
from tieline.app.build.agents import AlreadyInstalled, NotInstallable, check_installable, install_command
from tieline.app.build.page_context import PageContext
from tieline.app.config import KEY_NAMES, Config, ConfigError, key_variables
from tieline.backends.acp.catalogue import AgentSpec
from tieline.core.watch.bus import ModelsChanged
from tieline.core.watch.secrets import hide_likely
from tieline.model.errors import BadRequest, GatewayError
from tieline.net.process.program import Process, ProcessError, StopTimeouts
from tieline.net.process.tail import Tail
from tieline.web.setup_info import InstallState

INSTALL_TIMEOUT = 900.0
"""Time limit for an installation, in seconds."""
MAX_OUTPUT = 16 * 1024
STOPPING = StopTimeouts(eof=0.1, term=3, kill=3)


class PageInstaller:
    """Installs one agent at a time, and keeps the outcome of the latest installation."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._state = InstallState()
        self._output = Tail(MAX_OUTPUT)
        self._running: asyncio.Task[None] | None = None

    def state(self) -> InstallState:
        """Return the state of the latest installation, with the end of its output."""
        return replace(self._state, output=hide_likely(self._context.secrets.hide(self._output.text())))

    async def start(self, agent: str, command: str) -> None:
        """Start the installation of an agent. `command` must be the command that the user confirmed."""
        if self._running is not None:
            raise GatewayError("bad_request", "Another agent is being installed. Wait until that is done.", status=409)
        spec = self._spec(agent)
        if command != shlex.join(install_command(spec)):
            raise BadRequest("`command` is not the command that installs this agent: reload the page", "command")
        self._output = Tail(MAX_OUTPUT)
        self._state = InstallState(agent=agent, state="running", command=command)
        self._running = self._context.tasks.start(self._install(spec), "install an agent")

    async def cancel(self) -> None:
        """Stop the running installation, and wait until its processes have ended."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def aclose(self) -> None:
        """Stop the running installation."""
        await self.cancel()

    def _spec(self, agent: str) -> AgentSpec:
        try:
            return check_installable(self._context.config.acp, agent, self._context.env)
        except (ConfigError, AlreadyInstalled, NotInstallable) as error:
            raise BadRequest(str(error), "agent") from None

    async def _install(self, spec: AgentSpec) -> None:
        try:
            async with asyncio.timeout(INSTALL_TIMEOUT):
                await self._run(spec)
        except TimeoutError:
            self._conclude("failed", f"Stopped: it took longer than {INSTALL_TIMEOUT / 60:.0f} minutes.")
        except asyncio.CancelledError:
            self._conclude("failed", "Cancelled.")
            raise
        finally:
            self._running = None
            self._announce()

    async def _run(self, spec: AgentSpec) -> None:
        command, env = install_command(spec), install_environment(self._context.config, self._context.env)
        try:
            process = await Process.start(command, env=env, cwd=str(Path.home()), merges_stderr=True)
        except ProcessError as error:
            self._conclude("failed", f"{error.message}. Install {command[0]} first.")
            return
        try:
            while data := await process.chunk():
                self._output.add(data)
            end = await process.wait()
        finally:
            await process.aclose(STOPPING)
        if end.status == 0:
            self._conclude("done", self._success(spec))
        else:
            self._conclude("failed", f"{command[0]} {end}. Its output says why.")

    def _success(self, spec: AgentSpec) -> str:
        try:
            check_installable(self._context.config.acp, spec.id, self._context.env)
        except AlreadyInstalled:
            login = f" If it needs a login, run `{spec.login}` in a terminal." if spec.login else ""
            return f"{spec.title} is installed. It is the model acp/{spec.id}.{login}"
        return f"The command succeeded, but `{spec.command[0]}` is not on the PATH of the gateway."

    def _conclude(self, state: Literal["done", "failed"], text: str) -> None:
        self._state = replace(self._state, state=state, text=text)

    def _announce(self) -> None:
        """Update the status of the backend for agents, and notify all open pages."""
        backends = self._context.backends
        if "acp" in backends.by_name:
            backends.put("acp", backends.by_name["acp"], acp_status(self._context.config, self._context.env))
        self._context.gateway.models.invalidate()
        self._context.gateway.bus.publish(ModelsChanged())


def install_environment(config: Config, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an installation receives: all except those with the gateway's keys."""
    upstreams = {settings.key_env for settings in config.upstreams.values()}
    hidden = {*key_variables(config), *KEY_NAMES.values(), *upstreams, config.cursor.key_env}
    return {name: value for name, value in env.items() if name not in hidden}
