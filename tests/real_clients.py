"""Installs real clients from npm and PyPI below `.clients`, runs `tieline doctor` with each, and prints a table.

    python -m tests.real_clients [--latest] [CLIENT …]

Without --latest, the versions in `SOURCES` are installed. What is installed already is not installed again.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tieline.clients.catalogue import CLIENTS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".clients"
NODE = "22"
INSTALL_LIMIT = 900
RUN_LIMIT = 300


class Source(NamedTuple):
    """Where a client comes from, and the version that is known to work."""

    registry: Literal["npm", "pypi"]
    package: str
    version: str


SOURCES = {
    "claude": Source("npm", "@anthropic-ai/claude-code", "2.1.326"),
    "codex": Source("npm", "@openai/codex", "0.169.0"),
    "opencode": Source("npm", "opencode-ai", "1.18.33"),
    "aider": Source("pypi", "aider-chat", "0.86.2"),
    "qwen": Source("npm", "@qwen-code/qwen-code", "0.24.4"),
    "goose": Source("npm", "@aaif/goose", "0.20.1"),
    "cline": Source("npm", "cline", "3.0.65"),
    "continue": Source("npm", "@continuedev/cli", "1.5.47"),
    "pi": Source("npm", "@mariozechner/pi-coding-agent", "0.73.1"),
    "kilo": Source(
        "npm", "@kilocode/cli", "7.7.7"
    ),  # 7.8.1 needs a version of its platform package that npm does not have
    "copilot": Source("npm", "@github/copilot", "1.0.102"),
    "llm": Source("pypi", "llm", "0.36"),
}


class Installed(NamedTuple):
    """A client on this machine: the folder with its program, or why there is none."""

    folder: Path | None
    problem: str = ""


def install(name: str, *, latest: bool) -> Installed:
    """Install a client into a folder of its own."""
    source = SOURCES[name]
    version = "latest" if latest else source.version
    folder = FOLDER / f"{name}-{version}"
    bins = folder / ("node_modules/.bin" if source.registry == "npm" else "bin")
    if not latest and any((bins / program).exists() for program in CLIENTS[name].programs):
        return Installed(bins)
    try:
        if source.registry == "npm":
            _npm(folder, f"{source.package}@{version}")
        else:
            _pip(folder, source.package if latest else f"{source.package}=={version}")
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Installed(None, f"cannot be installed: {_last_line(error)}")
    return Installed(bins)


def _npm(folder: Path, package: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _run(("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", package))


def _pip(folder: Path, package: str) -> None:
    _run((sys.executable, "-m", "venv", str(folder)))
    _run((str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package))


def _run(argv: tuple[str, ...]) -> None:
    env = {**os.environ, "PATH": search_path()}
    subprocess.run(argv, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT, env=env)  # noqa: S603 - fixed arguments


def _last_line(error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    lines = [line for line in str(output or error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def search_path(*folders: Path) -> str:
    """Return a PATH with these folders, and with the Node.js that was installed for the clients, if any."""
    return os.pathsep.join([*map(str, folders), str(FOLDER / "node/node_modules/.bin"), os.environ.get("PATH", "")])


def provide_node() -> None:
    """Install Node.js from npm if that of the system is too old for the clients."""
    found = shutil.which("node", path=search_path())
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""  # noqa: S603 - found on the PATH
    number = re.match(r"v(\d+)", version)
    if number is None or int(number[1]) < int(NODE):
        _npm(FOLDER / "node", f"node@{NODE}")


def check(name: str, installed: Installed) -> dict[str, Any]:
    """Run the doctor with a client, and return its report."""
    if installed.folder is None:
        return {"client": name, "problem": installed.problem}
    argv = (sys.executable, "-m", "tieline", "doctor", name, "--json")
    env = {**os.environ, "PATH": search_path(installed.folder)}
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_LIMIT, env=env, cwd=ROOT)  # noqa: S603 - our own command
    except subprocess.TimeoutExpired:
        return {"client": name, "problem": f"no result within {RUN_LIMIT} s"}
    try:
        report: dict[str, Any] = json.loads(ran.stdout)
    except json.JSONDecodeError:
        return {"client": name, "problem": f"no report: {(ran.stderr.splitlines() or ['no output'])[-1]}"}
    return report


def table(reports: list[dict[str, Any]]) -> str:
    """Return the reports as a table in Markdown."""
    lines = ["| client | version | protocol | result | requests | calls | seconds |", "|---|---|---|---|---|---|---|"]
    for report in reports:
        client = CLIENTS[report["client"]]
        result = f"failed: {report['problem']}" if report["problem"] else "passed"
        calls = ", ".join(f"`{name}`" for name in report.get("calls", ())) or "–"
        cells = (client.title, report.get("version") or "?", client.protocol, result, report.get("requests", 0), calls)
        lines.append(f"| {' | '.join(map(str, cells))} | {report.get('duration', 0):.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Check the clients that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description="Run real clients on the demo model.")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"{', '.join(SOURCES)} (default: all)")
    parser.add_argument("--latest", action="store_true", help="install the newest versions")
    options = parser.parse_args()
    if unknown := [name for name in options.clients if name not in SOURCES]:
        parser.error(f"unknown client {unknown[0]}; expected one of {', '.join(SOURCES)}")
    provide_node()
    reports = []
    for name in options.clients or SOURCES:
        report = check(name, install(name, latest=options.latest))
        sys.stderr.write(f"{name}: {report['problem'] or 'passed'}\n")
        if report["problem"]:
            sys.stderr.writelines(f"  {line}\n" for key in ("output", "traffic") for line in report.get(key, ()))
        reports.append(report)
    sys.stdout.write(f"{table(reports)}\n")
    return 1 if any(report["problem"] for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
