"""Starts, pins, pauses, measures and stops the processes of the benchmark."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / ".build"
SERVER_CORE = 0
LOAD_CORE = 1
DELTAS = 50
PACE_MS = 10
START_LIMIT_S = 120.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The benchmark cannot continue. The message tells the user why."""


def free_ports(count: int) -> list[int]:
    """Return different unused ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]


def compile_c(name: str) -> Path:
    """Compile bench/<name>.c, unless the program is newer than its sources, and return the path of the program."""
    source, program = HERE / f"{name}.c", BUILD / name
    BUILD.mkdir(exist_ok=True)
    newest = max(path.stat().st_mtime for path in (source, *HERE.glob("*.h")))
    if not program.exists() or program.stat().st_mtime < newest:
        compiler = os.environ.get("CC", "cc")
        if shutil.which(compiler) is None:
            raise BenchError(f"a C compiler is needed to build {source.name}: {compiler} was not found")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)], check=True)
    return program


def check_machine() -> None:
    """Raise BenchError unless the server under test and the load generator can each have a core."""
    if shutil.which("taskset") is None:
        raise BenchError("taskset (util-linux) is needed to pin the servers to one core")
    if not {SERVER_CORE, LOAD_CORE} <= os.sched_getaffinity(0):
        raise BenchError("two cores are needed: one for the server under test, one for upstream and load")


@dataclass(frozen=True)
class Target:
    """The address and the model to which the load generator sends its requests."""

    port: int
    path: str
    model: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """The settings of one run of the load generator. It ends after `seconds`, `requests` or `conversations`.

    With `conversations`, `bodies` are the successive requests of one conversation. That many interleaved conversations
    send each body once, and are numbered from `first_conversation`.
    """

    bodies: tuple[bytes, ...]
    mode: str
    concurrency: int
    seconds: float = 0.0
    requests: int = 0
    ramp_ms: int = 0
    grace_s: float = 20.0
    deltas: int = DELTAS
    conversations: int = 0
    first_conversation: int = 0


@dataclass(frozen=True)
class LoadResult:
    """The results of one run of the load generator."""

    requests: int
    errors: int
    retries: int
    seconds: float
    rps: float
    deltas: int
    deltas_per_s: float
    ttfb_mean_us: float
    ttfb_p50_us: int
    ttfb_p99_us: int
    first_delta_mean_us: float
    first_delta_p50_us: int
    first_delta_p99_us: int
    latency_mean_us: float
    latency_p50_us: int
    latency_p99_us: int
    first_error: str


def run_load(target: Target, load: Load) -> LoadResult:
    """Run the load generator once and return its results."""
    headers = BUILD / "headers.txt"
    headers.write_text("".join(f"{name}: {value}\n" for name, value in target.headers.items()), encoding="ascii")
    command = ["taskset", "-c", str(LOAD_CORE), str(compile_c("load")), "--port", str(target.port)]
    command += ["--path", target.path, "--headers", str(headers), "--mode", load.mode]
    command += ["--concurrency", str(load.concurrency), "--ramp", str(load.ramp_ms), "--deltas", str(load.deltas)]
    command += ["--grace", str(load.grace_s), "--requests", str(load.requests), "--seconds", str(load.seconds)]
    command += ["--conversations", str(load.conversations), "--first", str(load.first_conversation)]
    for number, body in enumerate(load.bodies):
        path = BUILD / f"body{number}.json"
        path.write_bytes(body)
        command += ["--body", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        raise BenchError(f"the load generator failed: {done.stderr.strip()}")
    return LoadResult(**json.loads(done.stdout))


def _stat_fields(pid: str) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command name; an empty list if the process has ended."""
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


@dataclass
class Process:
    """A process and its children, in their own session and pinned to one core."""

    name: str
    command: Sequence[str]
    core: int
    env: Mapping[str, str] = field(default_factory=dict)
    popen: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return BUILD / f"{self.name}.log"

    def start(self) -> None:
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                ["taskset", "-c", str(self.core), *self.command],
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=BUILD,
                start_new_session=True,
            )

    def _signal(self, number: int) -> None:
        if self.popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, number)

    def stop(self) -> None:
        """Terminate the process and its children, and kill them if they do not end within 3 seconds."""
        if self.popen is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(3)
        self._signal(signal.SIGKILL)
        self.popen.wait()
        self.popen = None

    def pause(self) -> None:
        """Suspend the process, so that it does not disturb the measurement of another one."""
        self._signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def resumed(self) -> Iterator[None]:
        """Let the process run inside the `with` block, then pause it again."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def check_alive(self) -> None:
        if self.popen is None or self.popen.poll() is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise BenchError(f"{self.name} ended unexpectedly: " + " | ".join(tail))

    def _pids(self) -> list[str]:
        """Return the ids of all processes of the session (field 6 of stat)."""
        if self.popen is None:
            return []
        session = str(self.popen.pid)
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if (fields := _stat_fields(pid)) and fields[3] == session]

    def rss_kib(self) -> int:
        """Return the resident memory of the process and its children in KiB."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                for line in Path("/proc", pid, "status").read_text(encoding="utf-8").splitlines():
                    if line.startswith("VmRSS:"):
                        total += int(line.split()[1])
        return total

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far by the process and its children, user and system."""
        total = 0.0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                total += time.clock_gettime(_cpu_clock(int(pid)))
        return total


def _cpu_clock(pid: int) -> int:
    """Return the id of the CPU-time clock of a process, as clock_getcpuclockid(3) does. Its resolution is 1 ns."""
    return (~pid << 3) | 2


def core_seconds(core: int) -> float:
    """Return for how many seconds a core was busy since boot, including time stolen by the host of this machine."""
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in fields[:8])
            return (user + nice + system + irq + softirq + steal) / TICKS_PER_S
    return 0.0


def fetch(port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes | None:
    """Send a GET request, or a POST if there is a body. Return the response body, or None if the request fails."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_LIMIT_S)
    try:
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return text if answer.status == 200 else None


def has_all_text(answer: bytes) -> bool:
    """Return whether an answer contains the complete text that the fake upstream sends."""
    return all(b"tok%02d " % number in answer for number in range(DELTAS))


def start_and_time(process: Process, target: Callable[[], Target], body: bytes) -> float:
    """Start a server and return the number of seconds until its first complete answer.

    `target` is called repeatedly, because a server may choose its port when it starts.
    """
    process.start()
    began = time.monotonic()
    while not _answers(target(), body):
        process.check_alive()
        if time.monotonic() - began > START_LIMIT_S:
            raise BenchError(
                f"{process.name} gave no correct answer within {START_LIMIT_S:.0f} s; see {process.log.name}"
            )
        time.sleep(0.005)
    return time.monotonic() - began


def _answers(target: Target, body: bytes) -> bool:
    return has_all_text(fetch(target.port, target.path, body, target.headers) or b"")
