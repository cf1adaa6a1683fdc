"""The command `tieline service`: shows what it will do, asks, and then installs or removes the service."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tieline.app.config import ConfigError
from tieline.app.config_file import read_config_file
from tieline.app.service import MARK, Command, Service, Setup, gateway_command, service_for
from tieline.cli.terminal import discard_typed
from tieline.cli.trust import shown_path
from tieline.net.private_files import write_private
from tieline.net.process.search import find_program
from tieline.tools.invisible_text import visible

TIMEOUT = 60.0
"""Maximum duration of a system command, in seconds."""

Say = Callable[[str], None]


def run(options: argparse.Namespace, env: Mapping[str, str], say: Say) -> int:
    """Run `tieline service` and return its exit status. `say` prints text."""
    service = _service(options.config, env)
    if options.action == "status":
        return _status(service, env, say)
    if options.action == "install":
        return _install(service, env, say, is_agreed=options.yes)
    return _remove(service, env, say, is_agreed=options.yes)


def _service(config: Path | None, env: Mapping[str, str]) -> Service:
    if config is not None:
        read_config_file(config)  # raises ConfigError if it cannot be read
        config = config.absolute()
    folder = Path(env.get("HOME") or env.get("USERPROFILE") or Path.home())
    setup = Setup(gateway_command(sys.executable, config), env.get("PATH", os.defpath), folder)
    return service_for(sys.platform, env, setup, os.getuid() if hasattr(os, "getuid") else 0)


def _status(service: Service, env: Mapping[str, str], say: Say) -> int:
    if not service.path.exists():
        say("The service is not installed. `tieline service install` installs it.")
        return 1
    say(f"Installed: {shown_path(service.path)}")
    return _run(service.status, env)


def _install(service: Service, env: Mapping[str, str], say: Say, *, is_agreed: bool) -> int:
    _check_ours(service)
    verb = "replace" if service.path.exists() else "write"
    content = "\n".join(f"  {line}" for line in visible(service.content).splitlines())
    say(f"This will {verb} {shown_path(service.path)}:\n\n{content}\n\nand run:\n\n{_lines(service.install)}\n")
    if not (is_agreed or _asked("Install the service? [y/N] ", say)):
        return 1
    _program(service.install[0], env)  # before anything is written
    before = service.path.read_bytes() if service.path.exists() else None
    try:
        write_private(service.path, service.content.encode(service.encoding))
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=service.path) from error
    for command in service.install:
        status = _run(command, env)
        if status and not command.may_fail:
            _restore(service.path, before)
            say(f"`{_line(command)}` failed, so the file was {'restored' if before is not None else 'removed'}.")
            return status
    say(f"The service is installed and started.\n{service.note}")
    return 0


def _remove(service: Service, env: Mapping[str, str], say: Say, *, is_agreed: bool) -> int:
    if not service.path.exists():
        say("The service is not installed.")
        return 1
    _check_ours(service)
    commands = f"{_lines(service.stop)}\n  (delete {shown_path(service.path)})"
    say("\n".join(filter(None, ("This will run:\n", commands, _lines(service.forget), ""))))
    if not (is_agreed or _asked("Remove the service? [y/N] ", say)):
        return 1
    _run_all(service.stop, env)
    try:
        service.path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be deleted: {error.strerror}", path=service.path) from error
    _run_all(service.forget, env)
    say("The service is stopped and removed. Configuration, logins and sessions were kept.")
    return 0


def _check_ours(service: Service) -> None:
    """Raise ConfigError if the service file exists but was not written by Tieline."""
    try:
        content = service.path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=service.path) from error
    if MARK not in content.decode(service.encoding, "replace"):
        raise ConfigError(
            "was not written by `tieline service`, so it is left alone: rename it first", path=service.path
        )


def _restore(path: Path, before: bytes | None) -> None:
    if before is None:
        path.unlink(missing_ok=True)
    else:
        write_private(path, before)


def _asked(question: str, say: Say) -> bool:
    """Ask on the terminal, and return whether the user typed yes. Without a terminal, explain `--yes`."""
    if not sys.stdin.isatty():
        say("Nothing was changed. Without a terminal, confirm with --yes.")
        return False
    discard_typed(sys.stdin)
    sys.stdout.write(question)
    sys.stdout.flush()
    is_agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not is_agreed:
        say("Nothing was changed.")
    return is_agreed


def _run_all(commands: Sequence[Command], env: Mapping[str, str]) -> None:
    for command in commands:
        _run(command, env)


def _run(command: Command, env: Mapping[str, str]) -> int:
    """Run a command and return its exit status. The user sees its output, except errors of a command that may fail."""
    output = subprocess.DEVNULL if command.may_fail else None
    try:
        argv = [_program(command, env), *command.argv[1:]]
        return subprocess.run(argv, env=dict(env), stderr=output, timeout=TIMEOUT, check=False).returncode  # noqa: S603 - shown to the user, who agreed
    except subprocess.TimeoutExpired:
        raise ConfigError(f"`{_line(command)}` did not finish within {TIMEOUT:g} seconds") from None


def _program(command: Command, env: Mapping[str, str]) -> str:
    """Return the path of a command's program. Raise ConfigError if there is none."""
    name = command.argv[0]
    program = find_program(name, env)
    if program is None:
        raise ConfigError(f"{name} was not found, so this system has no service manager that Tieline knows")
    return program


def _lines(commands: Sequence[Command]) -> str:
    return "\n".join(f"  {_line(command)}" for command in commands)


def _line(command: Command) -> str:
    return visible(" ".join(f'"{word}"' if " " in word else word for word in command.argv))
