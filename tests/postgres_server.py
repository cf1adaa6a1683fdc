"""A private PostgreSQL server, from the programs of the Debian package `postgresql`.

The server runs in a temporary folder, under an unprivileged user, and listens on the loopback interface only. It does
not wait for the disk.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_port

PROGRAMS = Path("/usr/lib/postgresql")
USER = "tieline"
PASSWORD = "secret-of-the-database"
FAST_STOP = 10.0
WAIT = 30.0

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


class NoPostgres(Exception):
    """No server can be started on this machine. The message says why."""


class PostgresServer:
    """A server that can be stopped, started again and frozen. Its address stays the same."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        # PostgreSQL refuses to run as root.
        self._user = _given_away(folder) if os.getuid() == 0 else None

    def initialise(self) -> None:
        """Create the files of the server."""
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)  # the folder is private
        self._call(
            "initdb",
            *("-D", str(self._folder / "data"), "-U", USER, "--pwfile", str(password), "-E", "UTF8"),
            *("--auth-local=trust", "--auth-host=scram-sha-256", "--no-locale", "--no-sync"),
        )

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user)  # noqa: S603 - a fixed program
        until = time.monotonic() + WAIT
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < until, "PostgreSQL did not start in time"
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT closes all connections, SIGQUIT and SIGKILL are a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(FAST_STOP)
            except subprocess.TimeoutExpired:  # a connection that does not react to SIGINT delays the stop
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(WAIT)
            self._process = None

    def pin(self, core: int) -> None:
        """Let the server run on one core only, with all its future connections."""
        assert self._process is not None
        os.sched_setaffinity(self._process.pid, {core})

    def freeze(self) -> None:
        """Make the server hang, with all its connections."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """End `freeze`."""
        self._signal_all(signal.SIGCONT)

    def create(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        self._call("createdb", "-h", str(self._folder), "-p", str(self.port), "-U", USER, name)
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def query(self, url: str, statement: str) -> str:
        """Execute a statement as the administrator and return the output of `psql`."""
        name = url.rpartition("/")[2]
        arguments = ("-h", str(self._folder), "-p", str(self.port), "-U", USER, "-d", name, "-Atqc", statement)
        return self._call("psql", *arguments)

    def _signal_all(self, signum: signal.Signals) -> None:
        """Send a signal to the server and to the processes of its connections."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            os.kill(one, signum)

    def _answers(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", str(self._folder), "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0  # noqa: S603 - a fixed program

    def _call(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(  # noqa: S603 - a fixed program
            command, capture_output=True, text=True, check=False, timeout=2 * WAIT, cwd=self._folder, user=self._user
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def private_server() -> Iterator[PostgresServer]:
    """Start a server, and stop it at the end. Raise NoPostgres if that is not possible."""
    found = sorted(PROGRAMS.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise NoPostgres(f"PostgreSQL is not installed in {PROGRAMS}: install the Debian package `postgresql`")
    folder = Path(tempfile.mkdtemp(prefix="tieline-pg-"))
    try:
        server = PostgresServer(found[-1].parent, folder)
        try:
            server.initialise()
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _given_away(folder: Path) -> str:
    """Give a folder to an unprivileged user, and return the name of the user."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(LookupError):
            shutil.chown(folder, name)
            return name
    raise NoPostgres("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")
