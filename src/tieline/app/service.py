"""The gateway as a user service: what each system needs to start it at login and keep it running.

A service consists of a file and system commands. The file describes a systemd unit, a launchd agent, or a task for the
Windows Task Scheduler. This module only computes a plan; `tieline service` shows it and then carries it out.

No environment variables are written to the file, except PATH on Linux and macOS, which is needed to find coding agents.
Keys would be stored there in plain text, where backups and other programs could find them.
"""

import plistlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePath
from typing import NamedTuple

from tieline.app.config import ConfigError
from tieline.app.folders import user_folder

MARK = "Written by `tieline service install`"
"""This text in a file shows that Tieline wrote it and may replace or delete it."""
UNIT = "tieline.service"
LABEL = "tieline.gateway"
TASK = "Tieline"
_TEMPORARY = frozenset(("archive-v0", "builds-v0", "environments-v2"))
"""Folders in uv's cache. An environment in one of them may disappear at any time."""


class Command(NamedTuple):
    """A system command. If `may_fail` is true, its failure is ignored."""

    argv: tuple[str, ...]
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """How to install, inspect and remove the service on one system."""

    path: Path
    """The file that describes the service."""
    content: str
    encoding: str
    install: tuple[Command, ...]
    """Commands to run after the file has been written."""
    status: Command
    stop: tuple[Command, ...]
    """Commands to run before the file is deleted."""
    forget: tuple[Command, ...]
    """Commands to run after the file has been deleted."""
    note: str
    """What the user should know about keys, logs and logins."""


class Setup(NamedTuple):
    """What the service runs: the command line, its PATH and its working directory."""

    command: tuple[str, ...]
    path: str
    folder: Path


def gateway_command(executable: str, config: Path | None) -> tuple[str, ...]:
    """Return the command line that starts the gateway with the Python interpreter `executable`.

    Raise ConfigError if this installation is only temporary.
    """
    if not _TEMPORARY.isdisjoint(PurePath(executable).parts):
        raise ConfigError(
            "this installation of Tieline is temporary (uvx). Install it with `uv tool install tieline` or "
            "`pipx install tieline`, then run `tieline service install`"
        )
    python = Path(executable)
    script = next((one for name in ("tieline", "tieline.exe") if (one := python.with_name(name)).is_file()), None)
    # With -P, Python does not look for modules in the working directory.
    start = (str(script),) if script is not None else (executable, "-P", "-m", "tieline")
    return (*start, "serve", *(("--config", str(config)) if config is not None else ()))


def service_for(platform: str, env: Mapping[str, str], setup: Setup, uid: int) -> Service:
    """Return the service for `platform`, a value of `sys.platform`. Raise ConfigError if it is not supported.

    `uid` is the user's numeric id, which macOS needs.
    """
    if platform == "linux":
        return _systemd(env, setup)
    if platform == "darwin":
        return _launchd(env, setup, uid)
    if platform == "win32":
        return _task(env, setup)
    raise ConfigError(f"services are supported on Linux (systemd), macOS and Windows, not on {platform}")


# ── Linux ────────────────────────────────────────────────────────────────────────────────────────


def _systemd(env: Mapping[str, str], setup: Setup) -> Service:
    settings = user_folder(env)
    systemctl = ("systemctl", "--user")
    return Service(
        path=settings.parent / "systemd" / "user" / UNIT,
        content=f"""\
# {MARK}; `tieline service remove` deletes it.
[Unit]
Description=Tieline, a local gateway between AI clients and models

[Service]
ExecStart={" ".join(map(_unit_word, setup.command))}
WorkingDirectory={_specifiers(str(setup.folder))}
Environment={_unit_word(f"PATH={setup.path}", is_command=False)}
# Variables with keys, one NAME=value per line. The file is optional; make it readable by you only (chmod 600).
EnvironmentFile=-{_specifiers(str(settings / "environment"))}
UMask=0077
Restart=on-failure
RestartSec=2

[Install]
WantedBy=default.target
""",
        encoding="utf-8",
        install=(
            Command((*systemctl, "daemon-reload")),
            Command((*systemctl, "enable", UNIT)),
            Command((*systemctl, "restart", UNIT)),
        ),
        status=Command((*systemctl, "status", "--no-pager", UNIT)),
        stop=(Command((*systemctl, "disable", "--now", UNIT), may_fail=True),),
        forget=(Command((*systemctl, "daemon-reload")),),
        note=f"""\
Keys: the service does not see the variables of this shell. Use `key_file` in the configuration, or write lines such as
  ANTHROPIC_API_KEY=… to {settings / "environment"} and make the file private with chmod 600.
Logs: journalctl --user -u tieline
To start it at boot instead of at login: loginctl enable-linger""",
    )


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _unit_word(word: str, *, is_command: bool = True) -> str:
    """Return a word in the form that systemd expects: quoted, with special characters escaped."""
    escaped = _specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.replace("$", "$$") if is_command else escaped}"'


# ── macOS ────────────────────────────────────────────────────────────────────────────────────────


def _launchd(env: Mapping[str, str], setup: Setup, uid: int) -> Service:
    home = Path(env.get("HOME") or setup.folder)
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    log = home / "Library" / "Logs" / "tieline.log"
    description = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(setup.command),
            "EnvironmentVariables": {"PATH": setup.path},
            "WorkingDirectory": str(setup.folder),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
            "Umask": 0o077,
        },
        sort_keys=False,
    ).decode()
    domain = f"gui/{uid}"
    stop = Command(("launchctl", "bootout", f"{domain}/{LABEL}"), may_fail=True)
    return Service(
        path=path,
        content=description.replace("<plist", f"<!-- {MARK} -->\n<plist", 1),
        encoding="utf-8",
        install=(stop, Command(("launchctl", "bootstrap", domain, str(path)))),
        status=Command(("launchctl", "print", f"{domain}/{LABEL}")),
        stop=(stop,),
        forget=(),
        note=f"""\
Keys: the service does not see the variables of this shell. Use `key_file` in the configuration.
Logs: {log}""",
    )


# ── Windows ──────────────────────────────────────────────────────────────────────────────────────


def _task(env: Mapping[str, str], setup: Setup) -> Service:
    path = user_folder(env) / "service.xml"
    user = escape("\\".join(filter(None, (env.get("USERDOMAIN"), env.get("USERNAME")))))
    program, *arguments = setup.command
    return Service(
        path=path,
        content=f"""\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>{MARK}: a local gateway between AI clients and models</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger><UserId>{user}</UserId></LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="User">
      <UserId>{user}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>3</Count></RestartOnFailure>
  </Settings>
  <Actions Context="User">
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(_windows_line(arguments))}</Arguments>
      <WorkingDirectory>{escape(str(setup.folder))}</WorkingDirectory>
    </Exec>
  </Actions>
</Task>
""",
        encoding="utf-16",
        install=(
            Command(("schtasks", "/End", "/TN", TASK), may_fail=True),
            Command(("schtasks", "/Create", "/TN", TASK, "/XML", str(path), "/F")),
            Command(("schtasks", "/Run", "/TN", TASK)),
        ),
        status=Command(("schtasks", "/Query", "/TN", TASK, "/V", "/FO", "LIST")),
        stop=(
            Command(("schtasks", "/End", "/TN", TASK), may_fail=True),
            Command(("schtasks", "/Delete", "/TN", TASK, "/F"), may_fail=True),
        ),
        forget=(),
        note="""\
Keys: the service sees the variables that are stored for your account. Prefer `key_file` in the configuration.
A console window shows the output of the gateway. Closing it stops the gateway until the next login.""",
    )


def _windows_line(arguments: Sequence[str]) -> str:
    """Return arguments as one command line. None of them contains a quotation mark: Windows forbids it in paths."""
    return " ".join(f'"{one}"' if " " in one else one for one in arguments)
