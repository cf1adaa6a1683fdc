"""The coding agents that can be used on this machine, and the command `tieline agents`."""

import shlex
import subprocess
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from tieline.app.config import AcpSettings, AgentSettings, ConfigError
from tieline.backends.acp.catalogue import CATALOGUE, AgentSpec, Which, find
from tieline.net.process.search import find_program

FOUND = "Found on the PATH (Tieline learns whether they are logged in only when they are used):"


def catalogue(settings: AcpSettings) -> dict[str, AgentSpec]:
    """Return the built-in and configured agents by name."""
    return {**CATALOGUE, **{name: _spec(name, own) for name, own in settings.agents.items()}}


def listing(settings: AcpSettings, env: Mapping[str, str]) -> str:
    """Return text that lists the command of each installed agent, and says how to install the others."""
    which = which_in(env)
    found = {name: find(spec, which) for name, spec in catalogue(settings).items()}
    width = max(len(name) for name in found)
    ready = [f"  acp/{name:<{width}}  {one.line}" for name, one in found.items() if one.command is not None]
    missing = [f"  {name:<{width + 4}}  {one.line}" for name, one in found.items() if one.command is None]
    lines = [FOUND, *ready, ""] if ready else ["No agent was found on the PATH.", ""]
    hint = "Not installed (`tieline agents install <id>` shows the command and asks before it runs it):"
    return "\n".join([*lines, hint, *missing])


def install(
    settings: AcpSettings, name: str, env: Mapping[str, str], *, ask: Callable[[str], str], say: Callable[[str], None]
) -> int:
    """Show the command that installs an agent, and run it if the user agrees. Return the exit status.

    `say` shows a message to the user, and `ask` returns the user's answer to a question.
    """
    try:
        spec = check_installable(settings, name, env)
    except AlreadyInstalled as error:
        say(str(error))
        return 0
    except NotInstallable as error:
        say(str(error))
        return 1
    command = install_command(spec)
    say(f"This would run:\n\n  {shlex.join(command)}\n")
    if spec.needs:
        say(f"Note: {spec.needs}\n")
    if not _is_confirmed(ask):
        say("Nothing was installed.")
        return 1
    try:
        argv = [find_program(command[0], env) or command[0], *command[1:]]
        return subprocess.run(argv, env=dict(env), check=False).returncode  # noqa: S603 - shown to the user, who agreed
    except OSError as error:
        say(f"{command[0]} cannot be run: {error.strerror}. Install {command[0]} first.")
        return 1


class AlreadyInstalled(Exception):
    """The agent is already installed."""


class NotInstallable(Exception):
    """The agent cannot be installed with a single command. The message says what to do instead."""


def check_installable(settings: AcpSettings, name: str, env: Mapping[str, str]) -> AgentSpec:
    """Return the agent with this name, which is not installed but can be installed with a single command.

    Raise ConfigError if the agent is unknown, AlreadyInstalled if it is installed, and NotInstallable if no single
    command installs it.
    """
    spec = catalogue(settings).get(name)
    if spec is None:
        raise ConfigError(f"there is no agent `{name}`; `tieline agents` lists the known ones")
    if find(spec, which_in(env)).command is not None:
        raise AlreadyInstalled(f"{spec.title} is already installed.")
    if spec.install is None:
        raise NotInstallable(f"{spec.title} cannot be installed with a single command: {spec.needs}")
    return spec


def install_command(spec: AgentSpec) -> tuple[str, ...]:
    """Return the command that installs an agent; empty if there is none."""
    return spec.install or ()


def which_in(env: Mapping[str, str]) -> Which:
    """Return a function that finds programs on the PATH of this environment."""
    return lambda program: find_program(program, env)


def _is_confirmed(ask: Callable[[str], str]) -> bool:
    try:
        return ask("Run it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # standard input is closed
        return False


def _spec(name: str, own: AgentSettings) -> AgentSpec:
    """Return the agent with the settings in `own`. If the agent is known, the catalogue supplies missing settings."""
    known = CATALOGUE.get(name)
    if known is None and not own.command:
        raise ConfigError(f"`acp.agents.{name}` needs a `command`, because it is not one of the known agents")
    if known is None:
        return AgentSpec(
            id=name,
            title=own.title or name,
            command=own.command,
            env=own.env,
            login=own.login,
            cwd=own.cwd,
        )
    return replace(
        known,
        title=own.title or known.title,
        command=own.command or known.command,
        alternatives=() if own.command else known.alternatives,
        env={**known.env, **own.env},
        login=own.login or known.login,
        cwd=own.cwd or known.cwd,
    )
