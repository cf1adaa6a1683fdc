"""The servers that are compared: how each is found, installed, configured, started and addressed."""

import json
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from procs import BUILD, HERE, BenchError, Target

CHAT_PATH = "/v1/chat/completions"
BURST_MODEL = "bench/claude-bench"
PACED_MODEL = "paced/claude-bench"
KEY = "sk-bench-0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Upstream:
    """The two ports of the fake upstream."""

    burst: int
    paced: int

    def direct(self, *, paced: bool) -> Target:
        """The upstream itself, without a server in between."""
        return Target(self.paced if paced else self.burst, "/v1/messages", "claude-bench", {})


@dataclass(frozen=True)
class Launch:
    """A command and what it needs in its environment."""

    command: Sequence[str]
    env: dict[str, str]


class Peer(ABC):
    """A server that the benchmark can run."""

    name: str
    title: str
    slow = False  # gets fewer rounds
    port = 0
    upstream = Upstream(0, 0)

    def place(self, port: int, upstream: Upstream) -> None:
        """Says where it is to listen and what is behind it."""
        self.port, self.upstream = port, upstream

    @abstractmethod
    def version(self) -> str | None:
        """The installed version, or None."""

    @abstractmethod
    def install(self) -> None:
        """Installs it; may raise subprocess.CalledProcessError or OSError."""

    @abstractmethod
    def launch(self) -> Launch:
        """Writes its configuration and says how to start it."""

    def target(self, *, paced: bool) -> Target:
        """How to reach the burst or the paced upstream through it."""
        model = PACED_MODEL if paced else BURST_MODEL
        return Target(self.port, CHAT_PATH, model, {"Authorization": f"Bearer {KEY}"})


def _output(command: Sequence[str]) -> str | None:
    """What a command prints, or None if it cannot be run or fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _write(name: str, text: str) -> Path:
    path = BUILD / name
    path.write_text(text, encoding="utf-8")
    return path


class Tieline(Peer):
    name = "tieline"
    title = "Tieline"

    @staticmethod
    def _python() -> str:
        own = HERE.parent / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    def version(self) -> str | None:
        code = "import tieline; print(getattr(tieline, '__version__', 'unknown'))"
        return _output([self._python(), "-c", code])

    def install(self) -> None:
        raise OSError("run `make bench` from the repository; it sets up .venv")

    def launch(self) -> Launch:
        config = _write(f"{self.name}.toml", f"[server]\nport = {self.port}\n{self.backends()}")
        command = [self._python(), "-m", "tieline", "serve", "--config", str(config)]
        return Launch(command, {"TIELINE_BENCH_KEY": KEY})

    def backends(self) -> str:
        """The part of the configuration that says what is behind it."""
        text = ""
        for name, upstream_port in (("bench", self.upstream.burst), ("paced", self.upstream.paced)):
            text += f'\n[upstreams.{name}]\nkind = "anthropic"\nbase_url = "http://127.0.0.1:{upstream_port}"\n'
            text += 'key_env = "TIELINE_BENCH_KEY"\nmodels = ["claude-bench"]\n'
        return text


class CursorRuns(Tieline):
    """Tieline with the upstream as its Cursor account, over one of the two transports."""

    def __init__(self, transport: str, title: str) -> None:
        self.name = f"tieline-{transport}"
        self.title = title
        self._transport = transport

    def backends(self) -> str:
        url = f'"http://127.0.0.1:{self.upstream.burst}"'
        text = f'\n[cursor]\nenabled = true\napi_url = {url}\nagent_url = {url}\ntransport = "{self._transport}"\n'
        return text + 'key_env = "TIELINE_BENCH_KEY"\nghost_mode = true\nmodels = ["demo"]\n'

    def target(self, *, paced: bool) -> Target:
        if paced:
            raise BenchError("agent runs are not paced")
        return Target(self.port, CHAT_PATH, "cursor/demo", {"Authorization": f"Bearer {KEY}"})


class Nginx(Peer):
    """A plain proxy: the same requests go to the Anthropic path of the upstream, and its answer comes back as it is."""

    name = "nginx"
    title = "nginx"

    @staticmethod
    def _program() -> str | None:
        return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    def version(self) -> str | None:
        program = self._program()
        text = _output([program, "-v"]) if program else None
        return text.rpartition("/")[2] if text else None

    def install(self) -> None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise OSError("install nginx with your system's package manager")
        subprocess.run(["apt-get", "install", "-y", "nginx-light"], check=True, stdout=subprocess.DEVNULL)

    def launch(self) -> Launch:
        prefix = BUILD / "nginx"
        prefix.mkdir(exist_ok=True)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "\n".join(f"  {kind}_temp_path {prefix}/{kind};" for kind in kinds)
        proxy = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
        config = _write(
            "nginx.conf",
            f"""daemon off;
worker_processes 1;
worker_rlimit_nofile 8192;
pid {prefix}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
{temporary}
  access_log off;
  client_body_buffer_size 512k;
  upstream burst {{ server 127.0.0.1:{self.upstream.burst}; keepalive 1024; keepalive_requests 100000000; }}
  upstream paced {{ server 127.0.0.1:{self.upstream.paced}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{self.port} backlog=4096;
    keepalive_requests 100000000;
    location = {CHAT_PATH} {{ proxy_pass http://burst/v1/messages; {proxy} }}
    location = /paced{CHAT_PATH} {{ proxy_pass http://paced/v1/messages; {proxy} }}
  }}
}}
""",
        )
        program = self._program() or "nginx"
        return Launch([program, "-p", str(prefix), "-e", "stderr", "-c", str(config)], {})

    def target(self, *, paced: bool) -> Target:
        target = super().target(paced=paced)
        return Target(self.port, f"/paced{CHAT_PATH}", target.model, target.headers) if paced else target


class LiteLLM(Peer):
    name = "litellm"
    title = "LiteLLM"
    slow = True
    venv = BUILD / "litellm-venv"

    def version(self) -> str | None:
        code = "from importlib.metadata import version; print(version('litellm'))"
        return _output([str(self.venv / "bin" / "python"), "-c", code])

    def install(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(self.venv)], check=True)
        pip = [str(self.venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "litellm[proxy]"], check=True, stderr=subprocess.DEVNULL)

    def launch(self) -> Launch:
        text = "model_list:\n"
        for model, upstream_port in ((BURST_MODEL, self.upstream.burst), (PACED_MODEL, self.upstream.paced)):
            text += f"  - model_name: {model}\n    litellm_params:\n      model: anthropic/claude-bench\n"
            text += f"      api_base: http://127.0.0.1:{upstream_port}\n      api_key: {KEY}\n"
        config = _write("litellm.yaml", text)
        command = [str(self.venv / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
        env = {
            "LITELLM_MASTER_KEY": KEY,
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download at start
            "LITELLM_TELEMETRY": "False",
        }
        return Launch([*command, "--port", str(self.port), "--num_workers", "1", "--telemetry", "False"], env)


class Portkey(Peer):
    name = "portkey"
    title = "Portkey"
    slow = True
    folder = BUILD / "portkey"
    package = folder / "node_modules" / "@portkey-ai" / "gateway"

    def version(self) -> str | None:
        try:
            text = (self.package / "package.json").read_text(encoding="utf-8")
        except OSError:
            return None
        return str(json.loads(text)["version"]) if shutil.which("node") else None

    def install(self) -> None:
        self.folder.mkdir(exist_ok=True)
        # With later releases of this dependency every stream fails with "TypeError: immutable"
        # (https://github.com/Portkey-AI/gateway/issues/1389).
        wanted = {"dependencies": {"@portkey-ai/gateway": "*"}, "overrides": {"@hono/node-server": "1.14.1"}}
        (self.folder / "package.json").write_text(json.dumps(wanted), encoding="utf-8")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def launch(self) -> Launch:
        start = str(self.package / "build" / "start-server.js")
        return Launch(["node", start, f"--port={self.port}", "--headless"], {"NODE_ENV": "production"})

    def target(self, *, paced: bool) -> Target:
        target = super().target(paced=paced)
        host = f"http://127.0.0.1:{self.upstream.paced if paced else self.upstream.burst}/v1"
        headers = {**target.headers, "x-portkey-provider": "anthropic", "x-portkey-custom-host": host}
        return Target(self.port, target.path, "claude-bench", headers)


PEERS: tuple[Peer, ...] = (Tieline(), Nginx(), LiteLLM(), Portkey())
CURSOR_RUNS: tuple[Peer, ...] = (CursorRuns("http1", "HTTP/1.1"), CursorRuns("http2", "HTTP/2"))
"""The same gateway as the first of the peers, and compared with that one only."""
