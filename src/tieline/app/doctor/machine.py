"""Checks this machine: Python, installed packages, system limits, and helper programs."""

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata, util

from tieline import __version__
from tieline.app.doctor.findings import Check, Finding, blocking_check, ok, problem, warning
from tieline.net.process.tree import ProcessTree
from tieline.net.server import socket_owner
from tieline.tools.search import find_ripgrep

try:
    import resource
except ImportError:  # Windows, which has no such limits
    resource = None  # type: ignore[assignment]  # checked before its use

AREA = "Machine"
MIN_PYTHON = (3, 11)
MIN_FILES = 4096
"""Number of open files that a gateway with a few hundred streams needs."""

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<bounds>[^;]*)(;(?P<marker>.*))?")
_LOWEST = re.compile(r">=\s*([\d.]+)")


def machine_checks(env: Mapping[str, str]) -> list[Check]:
    """Return the checks for this machine. `env` holds the environment variables."""
    return [
        blocking_check(AREA, "Tieline", _tieline),
        blocking_check(AREA, "Python", _python),
        blocking_check(AREA, "packages", _packages),
        blocking_check(AREA, "event loop", _event_loop),
        blocking_check(AREA, "open files", _open_files),
        blocking_check(AREA, "processes", _processes),
        blocking_check(AREA, "other users", _other_users),
        blocking_check(AREA, "ripgrep", lambda: _ripgrep(env)),
    ]


def _tieline() -> Finding:
    return ok(f"{__version__} on {platform.system()} {platform.release()}, {platform.machine()}")


def _python() -> Finding:
    text = f"{platform.python_version()} ({sys.executable or 'unknown path'})"
    if sys.version_info < MIN_PYTHON:
        return problem(text, "Install Python 3.11 or newer, and install Tieline with it.")
    return ok(text)


def _packages() -> Finding:
    missing, found = [], []
    for name, least in _requirements():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(f"{name} is not installed")
            continue
        found.append(f"{name} {version}")
        if _numbers(version) < _numbers(least):
            missing.append(f"{name} is {version}, but {least} or newer is needed")
    if missing:
        return problem("; ".join(missing), "Install Tieline again: `pip install --upgrade --force-reinstall tieline`.")
    return ok(", ".join(found) or "unknown: Tieline runs without having been installed")


def _requirements() -> Iterator[tuple[str, str]]:
    """Yield the required packages, each with its lowest accepted version."""
    try:
        lines = metadata.requires("tieline") or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        found = _REQUIREMENT.match(line)
        # Requirements with a marker are extras, or uvloop, which has a check of its own.
        if found is not None and not found["marker"]:
            least = _LOWEST.search(found["bounds"])
            yield found["name"], least[1] if least else "0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _event_loop() -> Finding:
    if util.find_spec("uvloop") is None:
        fix = "" if platform.python_implementation() != "CPython" else "Run `pip install uvloop`."
        return warning("asyncio, because uvloop is not installed: the gateway needs more CPU time", fix)
    return ok(f"uvloop {metadata.version('uvloop')}")


def _open_files() -> Finding:
    if resource is None:
        return ok("without a limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return ok(f"{soft}, without an upper limit")
    if hard < MIN_FILES:
        fix = f"Raise the hard limit to {MIN_FILES} or more (`ulimit -Hn`, or LimitNOFILE in a systemd unit)."
        return warning(f"at most {hard}: many streams at the same time will fail", fix)
    return ok(f"{soft}, raised to {hard} at start-up")


def _processes() -> Finding:
    if ProcessTree.is_possible():
        return ok("agents and commands end together with everything that they started")
    return warning("on this system, programs that agents leave in the background may outlive them")


def _other_users() -> Finding:
    if socket_owner.owner_lookup() is not None:
        return ok("a gateway without a key serves only you (and root, on Linux)")
    text = "this system does not reveal who opened a connection, so a gateway without a key refuses all requests"
    return warning(text, "Set TIELINE_KEY.")


def _ripgrep(env: Mapping[str, str]) -> Finding:
    found = find_ripgrep(env.get("PATH", ""))
    if found is None:
        return warning("not installed, or too old: the gateway's own search tools are slower", "Install ripgrep.")
    return ok(found)
