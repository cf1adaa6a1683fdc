"""Starts, pins, pauses, measures and ends the processes of the benchmark."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
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
    """Something the reader of the output can act on."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are held until all are found, so they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]


def compile_c(name: str) -> Path:
    """Compiles bench/<name>.c unless the program is newer than every source."""
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
    """Says what is missing when servers and load cannot have a core each."""
    if shutil.which("taskset") is None:
        raise BenchError("taskset (util-linux) is needed to pin the servers to one core")
    if not {SERVER_CORE, LOAD_CORE} <= os.sched_getaffinity(0):
        raise BenchError("two cores are needed: one for the server under test, one for upstream and load")


@dataclass(frozen=True)
class Target:
    """Where the load generator sends its requests: one server, one of the two upstream ports behind it."""

    port: int
    path: str
    model: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Load:
    """One run of the load generator: a number of requests or a number of seconds."""

    body: bytes
    mode: str
    concurrency: int
    seconds: float = 0.0
    requests: int = 0
    ramp_ms: int = 0
    grace_s: float = 20.0
    deltas: int = DELTAS


@dataclass(frozen=True)
class LoadResult:
    """What the load generator prints."""

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
    """Runs the load generator once and returns its figures."""
    body, headers = BUILD / "body.json", BUILD / "headers.txt"
    body.write_bytes(load.body)
    headers.write_text("".join(f"{name}: {value}\n" for name, value in target.headers.items()), encoding="ascii")
    amount = ["--requests", str(load.requests)] if load.requests else ["--seconds", str(load.seconds)]
    command = ["taskset", "-c", str(LOAD_CORE), str(compile_c("load")), "--port", str(target.port)]
    command += ["--path", target.path, "--body", str(body), "--headers", str(headers), "--mode", load.mode]
    command += ["--concurrency", str(load.concurrency), "--ramp", str(load.ramp_ms), "--deltas", str(load.deltas)]
    command += ["--grace", str(load.grace_s), *amount]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        raise BenchError(f"the load generator failed: {done.stderr.strip()}")
    return LoadResult(**json.loads(done.stdout))


def _stat_fields(pid: str) -> list[str]:
    """The fields of /proc/<pid>/stat after the command name, or nothing if the process is gone."""
    try:
        text = Path("/proc", pid, "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


@dataclass
class Process:
    """A process with all that it starts, in a session of its own, pinned to one core."""

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
        """Ends the whole group: asked first, then killed."""
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
        """Keeps the process from running at all while another one is measured."""
        self._signal(signal.SIGSTOP)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def check_alive(self) -> None:
        if self.popen is None or self.popen.poll() is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise BenchError(f"{self.name} ended by itself: " + " | ".join(tail))

    def _pids(self) -> list[str]:
        """Every process of the session (field 6 of stat is the session)."""
        if self.popen is None:
            return []
        session = str(self.popen.pid)
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if (fields := _stat_fields(pid)) and fields[3] == session]

    def rss_kib(self) -> int:
        """Resident memory of the process and all its children, in KiB."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                for line in Path("/proc", pid, "status").read_text(encoding="utf-8").splitlines():
                    if line.startswith("VmRSS:"):
                        total += int(line.split()[1])
        return total

    def cpu_seconds(self) -> float:
        """Processor time spent so far by the process and all its children, user and system."""
        ticks = sum(int(fields[11]) + int(fields[12]) for pid in self._pids() if (fields := _stat_fields(pid)))
        return ticks / TICKS_PER_S


def core_seconds(core: int) -> float:
    """Time that a core was not idle since the machine started, whoever used it (also the host of a virtual one)."""
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in fields[:8])
            return (user + nice + system + irq + softirq + steal) / TICKS_PER_S
    return 0.0


def ask(port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes | None:
    """What a server answers with status 200 to one request, a POST if there is a body; None if it does not."""
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
    """Whether an answer holds the text of every delta."""
    return all(b"tok%02d " % number in answer for number in range(DELTAS))


def start_and_time(process: Process, target: Target, body: bytes) -> float:
    """Starts a server and returns the seconds until it gave its first complete answer."""
    process.start()
    began = time.monotonic()
    while not has_all_text(ask(target.port, target.path, body, target.headers) or b""):
        process.check_alive()
        if time.monotonic() - began > START_LIMIT_S:
            raise BenchError(f"{process.name} gave no right answer in {START_LIMIT_S:.0f} s; see {process.log.name}")
        time.sleep(0.005)
    return time.monotonic() - began
