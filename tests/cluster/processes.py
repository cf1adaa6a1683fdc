"""Replicas as programs behind a real load balancer, and clients that talk to them through it."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts
from tieline.sim.cursor import CursorSim

KEY = "gateway-key"
SECRET = "the-secret-of-this-cluster"
WAIT = 30.0
DEPLOY = Path(__file__).parents[2] / "deploy"
PLACES = f"/usr/sbin:{Path(sys.executable).parent}"
"""Where programs are that may not be on the path."""
TIMEOUTS = Timeouts(connect=10, first_byte=60, idle=60)
MAX_BODY = 1 << 20


class ReplicaProcess:
    """A replica as a program. Its public port stays the same when it is started again."""

    def __init__(self, folder: Path, number: int, settings: str, env: Mapping[str, str]) -> None:
        self.port = free_port()
        self.origin = Origin("http", "127.0.0.1", self.port)
        self._home = folder / f"replica-{number}"
        self._home.mkdir()
        self.config = self._home / "tieline.toml"
        self.config.write_text(settings)
        self._env = env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program. It may not be ready yet."""
        command = (sys.executable, "-m", "tieline", "serve", "--config", str(self.config), "--port", str(self.port))
        environment = {"HOME": str(self._home), "PATH": os.environ["PATH"], **self._env}
        with (self._home / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                command, cwd=self._home, env=environment, stdout=log, stderr=log
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait until the program has ended, and return its exit status."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, WAIT)

    async def ready(self, client: HttpClient) -> None:
        """Wait until the replica is ready."""
        async with asyncio.timeout(WAIT):
            while True:
                assert self.process is not None
                assert self.process.poll() is None, self.log()
                try:
                    response = await client.send(self.origin, "GET", "/readyz", (), timeouts=TIMEOUTS)
                    if json.loads(await response.read(MAX_BODY))["status"] == "ready":
                        return
                except PipeError:
                    pass
                await asyncio.sleep(0.05)

    def log(self) -> str:
        """Return what the program has printed."""
        return (self._home / "log").read_text()

    def kill(self) -> None:
        """End the program without a chance to clean up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(WAIT)


class Balancer(ABC):
    """A load balancer with its configuration in `deploy/`, in front of replicas."""

    program: str
    """The name of the program."""
    package: str
    """How to install it."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        found = shutil.which(self.program) or shutil.which(self.program, path=PLACES)
        if found is None:
            pytest.skip(f"{self.program} is not installed: install {self.package}")
        self.port = free_port()
        self.origin = Origin("http", "127.0.0.1", self.port)
        self._found = found
        self._folder = folder / self.program
        self._folder.mkdir()
        self._write_config(ports)
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> subprocess.CompletedProcess[str]:
        """Let the program check its configuration."""
        return subprocess.run(  # noqa: S603 - a fixed program
            (self._found, *self._checking()), capture_output=True, text=True, check=False, timeout=WAIT
        )

    def start(self) -> None:
        """Start the program and wait until it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            command = (self._found, *self._serving())
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - a fixed program
        until = time.monotonic() + WAIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < until, f"{self.program} did not start in time"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop the program."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT)

    @abstractmethod
    def _write_config(self, ports: list[int]) -> None: ...

    @abstractmethod
    def _checking(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _serving(self) -> tuple[str, ...]: ...


class Nginx(Balancer):
    program = "nginx"
    package = "the Debian package `nginx`"

    def _write_config(self, ports: list[int]) -> None:
        text = nginx_config((DEPLOY / "nginx.conf").read_text(), self._folder, self.port, ports)
        (self._folder / "nginx.conf").write_text(text)

    def _checking(self) -> tuple[str, ...]:
        return (*self._arguments(), "-t")

    def _serving(self) -> tuple[str, ...]:
        return (*self._arguments(), "-g", "daemon off;")

    def _arguments(self) -> tuple[str, ...]:
        return ("-p", str(self._folder), "-c", str(self._folder / "nginx.conf"), "-e", str(self._folder / "error.log"))


class Envoy(Balancer):
    program = "envoy"
    package = "it with `make servers`"

    def _write_config(self, ports: list[int]) -> None:
        text = envoy_config((DEPLOY / "envoy.yaml").read_text(), self.port, ports)
        (self._folder / "envoy.yaml").write_text(text)

    def _checking(self) -> tuple[str, ...]:
        return (*self._arguments(), "--mode", "validate")

    def _serving(self) -> tuple[str, ...]:
        # Without hot restarts, several can run on one machine.
        return (*self._arguments(), "--disable-hot-restart", "--concurrency", "1", "--drain-time-s", "0")

    def _arguments(self) -> tuple[str, ...]:
        return ("-c", str(self._folder / "envoy.yaml"), "--log-level", "warning")


BALANCERS = pytest.mark.parametrize("balancer", [Nginx, Envoy])


def nginx_config(text: str, folder: Path, port: int, ports: list[int]) -> str:
    """Return the example configuration for these ports, with all files in `folder`."""
    paths = ("client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path")
    own = "".join(f"    {name} {folder / name};\n" for name in paths)
    user = "user root;\n" if os.getuid() == 0 else ""
    text = text.replace("worker_processes auto;", f"{user}worker_processes 1;\npid {folder / 'pid'};", 1)
    text = text.replace("http {\n", f"http {{\n    access_log off;\n{own}", 1)
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};", 1)
    options = "max_fails=1 fail_timeout=2s;"
    servers = "".join(f"        server 127.0.0.1:{one} {options}\n" for one in ports)
    return re.sub(r"(?:        server tieline-\d:18741 [^\n]*\n)+", servers, text, count=1)


def envoy_config(text: str, port: int, ports: list[int]) -> str:
    """Return the example configuration for these ports."""
    text = text.replace("{ address: 0.0.0.0, port_value: 8080 }", f"{{ address: 127.0.0.1, port_value: {port} }}", 1)
    (line, *_) = found = re.findall(r" +- endpoint: .*\n", text)
    address = "address: tieline-1, port_value: 18741"
    replicas = (line.replace(address, f"address: 127.0.0.1, port_value: {one}") for one in ports)
    return text.replace("".join(found), "".join(replicas), 1)


class Cluster:
    """Replicas as programs, a load balancer, a simulated Cursor, and a client."""

    def __init__(self, replicas: list[ReplicaProcess], balancer: Balancer, sim: CursorSim, client: HttpClient) -> None:
        self.replicas = replicas
        self.balancer = balancer
        self.sim = sim
        self.client = client

    async def post(self, origin: Origin, path: str, body: Any, key: str = KEY, session: str = "") -> tuple[int, bytes]:
        """Send a request and return the status and the body of the response."""
        headers = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
        if session:
            headers.append(("x-claude-code-session-id", session))
        response = await self.client.send(origin, "POST", path, headers, json.dumps(body).encode(), TIMEOUTS)
        return response.status, await response.read(MAX_BODY)

    async def get(self, origin: Origin, path: str, key: str = KEY) -> tuple[int, Any]:
        """Send a request and return the status and the JSON of the response."""
        response = await self.client.send(origin, "GET", path, [("authorization", f"Bearer {key}")], b"", TIMEOUTS)
        return response.status, json.loads(await response.read(MAX_BODY))

    async def reports(self, replica: ReplicaProcess, status: str) -> None:
        """Wait until `/readyz` of a replica reports this status."""
        async with asyncio.timeout(WAIT):
            while True:
                _, answer = await self.get(replica.origin, "/readyz")
                if answer["status"] == status:
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def started(
    folder: Path,
    database: str,
    *,
    size: int = 3,
    more: str = "",
    page: bool = False,
    balancer: type[Balancer] = Nginx,
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Cluster, None]:
    """Start replicas and a load balancer.

    `more` is added to the configuration. `page` says whether they serve the web page.
    """
    async with CursorSim() as sim:
        settings = f"""
[cursor]
enabled = true
api_url = "{sim.url}"
transport = "http2"
ghost_mode = true
[store]
url_env = "STORE_URL"
[cluster]
listen = "127.0.0.1:0"
drain_seconds = 10
heartbeat_seconds = 0.5
dead_seconds = 3
[web]
enabled = {str(page).lower()}
[acp]
enabled = false
{more}"""
        known = {
            "TIELINE_KEY": KEY,
            "TIELINE_CLUSTER_SECRET": SECRET,
            "STORE_URL": database,
            "CURSOR_API_KEY": "key_of_the_account",
            **(env or {}),
        }
        replicas = [ReplicaProcess(folder, number, settings, known) for number in range(size)]
        proxy = balancer(folder, [replica.port for replica in replicas])
        client = HttpClient(per_origin=256)
        try:
            for replica in replicas:
                replica.start()
            for replica in replicas:
                await replica.ready(client)
            proxy.start()
            yield Cluster(replicas, proxy, sim, client)
        finally:
            proxy.stop()
            await client.aclose()
            for replica in replicas:
                replica.kill()


class Turn:
    """A conversation with one call of a tool, whose result is different for each."""

    def __init__(self, cluster: Cluster, number: int, key: str = KEY) -> None:
        self._cluster = cluster
        self._key = key
        self._session = f"session-{number}"
        self.result = f"sunny-{number}"
        script = f'```tieline\ncall: get_weather {{"city": "C{number}"}}\n---\ntext: It is {{{{result}}}}.\n```'
        self._messages: list[Any] = [{"role": "user", "content": script}]

    async def start(self, origin: Origin) -> str:
        """Let the model call the tool. Return the id of the call."""
        message = await self._ask(origin)
        assert len(message["tool_calls"]) == 1, message
        self._messages.append(message)
        return str(message["tool_calls"][0]["id"])

    def copy(self, other: "Turn") -> None:
        """Take over the history of another conversation."""
        self._messages = list(other._messages)

    async def finish(self, origin: Origin) -> None:
        """Send the result, and check the answer."""
        call_id = self._messages[-1]["tool_calls"][0]["id"]
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": self.result})
        message = await self._ask(origin)
        assert message["content"] == f"It is {self.result}.", message

    async def _ask(self, origin: Origin) -> Any:
        function = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
        body = {
            "model": "cursor/demo",
            "messages": self._messages,
            "tools": [{"type": "function", "function": function}],
        }
        path = "/v1/chat/completions"
        status, answer = await self._cluster.post(origin, path, body, self._key, self._session)
        assert status == 200, answer
        return json.loads(answer)["choices"][0]["message"]
