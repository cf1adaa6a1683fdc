"""The servers that are compared (peers): how to find, install, configure, start and address each of them."""

import json
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from procs import BUILD, HERE, Target

CHAT_PATH = "/v1/chat/completions"
MESSAGES_PATH = "/v1/messages"
RESPONSES_PATH = "/v1/responses"
PATHS = {
    "chat": CHAT_PATH,
    "messages": MESSAGES_PATH,
    "responses": RESPONSES_PATH,
    "openai": CHAT_PATH,
    "anthropic": MESSAGES_PATH,
}
"""The path of each API, by the name of the client's API and by the kind of upstream."""
KEY = "sk-bench-0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {KEY}"}


@dataclass(frozen=True)
class Route:
    """A path of a request through a gateway: the client's API, and the upstream that answers."""

    name: str
    title: str
    client: Literal["chat", "messages", "responses"]
    upstream: Literal["anthropic", "openai", "responses"]
    paced: bool = False

    @property
    def path(self) -> str:
        """The path of the client's requests."""
        return PATHS[self.client]

    @property
    def upstream_path(self) -> str:
        """The path of the upstream's API."""
        return PATHS[self.upstream]

    @property
    def upstream_model(self) -> str:
        """The name of the upstream's model."""
        return "claude-bench" if self.upstream == "anthropic" else "gpt-bench"


CHAT_TO_ANTHROPIC = Route("bench", "Chat → Anthropic", "chat", "anthropic")
MESSAGES_TO_ANTHROPIC = Route("bench", "Messages → Anthropic", "messages", "anthropic")
CHAT_TO_OPENAI = Route("openai-bench", "Chat → OpenAI", "chat", "openai")
RESPONSES_TO_ANTHROPIC = Route("bench", "Responses → Anthropic", "responses", "anthropic")
CHAT_TO_RESPONSES = Route("responses-bench", "Chat → Responses", "chat", "responses")
PACED = Route("paced", "Chat → Anthropic, paced", "chat", "anthropic", paced=True)
ROUTES = (CHAT_TO_ANTHROPIC, MESSAGES_TO_ANTHROPIC, CHAT_TO_OPENAI)
RESPONSES_ROUTES = (RESPONSES_TO_ANTHROPIC, CHAT_TO_RESPONSES)
"""Routes on which Tieline is compared with itself on the Chat routes; only nginx serves them too."""
BACKENDS = (CHAT_TO_ANTHROPIC, CHAT_TO_OPENAI, PACED)
"""One route for each upstream in the configuration of a gateway."""


@dataclass(frozen=True)
class Upstream:
    """The ports of the fake upstream: one sends all deltas at once, the other with pauses."""

    burst: int
    paced: int

    def port(self, route: Route) -> int:
        """Return the port of the upstream that serves a route."""
        return self.paced if route.paced else self.burst

    def direct(self, route: Route) -> Target:
        """Return the address and model that reach the upstream without a gateway."""
        return Target(self.port(route), route.upstream_path, route.upstream_model, {})


@dataclass(frozen=True)
class Launch:
    """The command that starts a server, and its environment variables."""

    command: Sequence[str]
    env: dict[str, str]


class Peer(ABC):
    """A server that the benchmark can measure."""

    name: str
    title: str
    slow = False
    """Whether the server gets fewer rounds and is left out of scenarios with many requests."""
    serves_responses = False
    """Whether the server is measured on the routes of the Responses API."""
    port = 0
    upstream = Upstream(0, 0)

    def place(self, port: int, upstream: Upstream) -> None:
        """Set the port on which the server listens, and its upstream."""
        self.port, self.upstream = port, upstream

    @abstractmethod
    def version(self) -> str | None:
        """Return the installed version, or None if the server is not installed."""

    @abstractmethod
    def install(self) -> None:
        """Install the server. Raise subprocess.CalledProcessError or OSError if that fails."""

    @abstractmethod
    def launch(self) -> Launch:
        """Write the configuration of the server, and return the command that starts it."""

    def target(self, route: Route) -> Target | None:
        """Return the address and model of a route through the server; None if it does not support the route."""
        if route in RESPONSES_ROUTES and not self.serves_responses:
            return None
        return Target(self.port, route.path, f"{route.name}/{route.upstream_model}", BEARER)


def _output(command: Sequence[str]) -> str | None:
    """Return the output of a command, or None if the command fails."""
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
    serves_responses = True

    @staticmethod
    def _python() -> str:
        own = HERE.parent / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    def version(self) -> str | None:
        code = "import tieline; print(getattr(tieline, '__version__', 'unknown'))"
        return _output([self._python(), "-c", code])

    def install(self) -> None:
        raise OSError("run `make bench` in the repository; it creates .venv")

    def launch(self) -> Launch:
        config = _write(f"{self.name}.toml", f"[server]\nport = {self.port}\n{self.backends()}")
        command = [self._python(), "-m", "tieline", "serve", "--config", str(config)]
        # If this variable is set, Python compiles every module at each start, which no user would see.
        return Launch(command, {"TIELINE_BENCH_KEY": KEY, "PYTHONDONTWRITEBYTECODE": ""})

    def backends(self) -> str:
        """Return the part of the configuration that describes the upstreams."""
        text = ""
        for route in (*BACKENDS, CHAT_TO_RESPONSES):
            is_anthropic = route.upstream == "anthropic"
            kind = "anthropic" if is_anthropic else "openai"
            url = f"http://127.0.0.1:{self.upstream.port(route)}" + ("" if is_anthropic else "/v1")
            text += f'\n[upstreams.{route.name}]\nkind = "{kind}"\nbase_url = "{url}"\n'
            text += 'api = "responses"\n' if route.upstream == "responses" else ""
            text += f'key_env = "TIELINE_BENCH_KEY"\nmodels = ["{route.upstream_model}"]\n'
        return text


class KeyedTieline(Tieline):
    """Tieline with a named key that has limits, and with usage recorded in SQLite, or in PostgreSQL at `store`."""

    def __init__(self, store: str | None = None) -> None:
        self.name = "tieline-sqlite" if store is None else "tieline-postgres"
        self.title = "keys and usage, SQLite" if store is None else "keys and usage, PostgreSQL"
        self._store = store

    def launch(self) -> Launch:
        launch = super().launch()
        return Launch(launch.command, launch.env | _private_state(self.name) | _store(self._store))

    def backends(self) -> str:
        limits = "requests_per_minute = 1_000_000\ntokens_per_day = 1_000_000_000\ncost_per_month = 1_000_000\n"
        store = "" if self._store is None else STORE
        return super().backends() + f'\n[keys.bench]\nkey_env = "TIELINE_BENCH_KEY"\n{limits}{store}'


STORE = '\n[store]\nurl_env = "TIELINE_STORE_URL"\n'


def _private_state(name: str) -> dict[str, str]:
    """Return the environment of a gateway that has a key and an empty state folder of its own."""
    folder = BUILD / "state" / name
    shutil.rmtree(folder, ignore_errors=True)
    return {"TIELINE_KEY": f"own-{KEY}", "XDG_STATE_HOME": str(folder)}


def _store(url: str | None) -> dict[str, str]:
    return {} if url is None else {"TIELINE_STORE_URL": url}


class CursorRuns(Tieline):
    """Tieline with the fake upstream in the role of Cursor's service, over one of the two transports."""

    def __init__(self, transport: str, title: str) -> None:
        self.name = f"tieline-{transport}"
        self.title = title
        self._transport = transport

    def backends(self) -> str:
        url = f'"http://127.0.0.1:{self.upstream.burst}"'
        text = f'\n[cursor]\nenabled = true\napi_url = {url}\nagent_url = {url}\ntransport = "{self._transport}"\n'
        return text + 'key_env = "TIELINE_BENCH_KEY"\nghost_mode = true\nmodels = ["demo"]\n'

    def target(self, route: Route) -> Target | None:
        return Target(self.port, CHAT_PATH, "cursor/demo", BEARER) if route == CHAT_TO_ANTHROPIC else None


class Replica(CursorRuns):
    """A replica of a cluster, on a shared database. The fake upstream is Cursor's service."""

    def __init__(self, number: int, store: str, listen: int) -> None:
        super().__init__("http1", f"replica {number}")
        self.name = f"tieline-replica-{number}"
        self._store = store
        self._listen = listen

    def launch(self) -> Launch:
        launch = super().launch()
        env = {**_private_state(self.name), **_store(self._store), "TIELINE_KEY": KEY}
        return Launch(launch.command, launch.env | env | {"TIELINE_CLUSTER_SECRET": KEY})

    def backends(self) -> str:
        return super().backends() + STORE + f'\n[cluster]\nlisten = "127.0.0.1:{self._listen}"\n'


class Nginx(Peer):
    """nginx as a plain proxy: it passes requests to the upstream of the route without translating them."""

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
        options = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
        locations = "\n".join(
            f"    location = {self._path(route)} {{ proxy_pass http://{'paced' if route.paced else 'burst'}"
            f"{route.upstream_path}; {options} }}"
            for route in (*ROUTES, *RESPONSES_ROUTES, PACED)
        )
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
  client_max_body_size 64m;
  client_body_buffer_size 8m;
  upstream burst {{ server 127.0.0.1:{self.upstream.burst}; keepalive 1024; keepalive_requests 100000000; }}
  upstream paced {{ server 127.0.0.1:{self.upstream.paced}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{self.port} backlog=4096;
    keepalive_requests 100000000;
{locations}
  }}
}}
""",
        )
        program = self._program() or "nginx"
        return Launch([program, "-p", str(prefix), "-e", "stderr", "-c", str(config)], {})

    @staticmethod
    def _path(route: Route) -> str:
        return f"/{route.name}{route.path}"

    def target(self, route: Route) -> Target | None:
        return Target(self.port, self._path(route), f"{route.name}/{route.upstream_model}", BEARER)


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
        for route in BACKENDS:
            url = f"http://127.0.0.1:{self.upstream.port(route)}" + ("/v1" if route.upstream == "openai" else "")
            text += f"  - model_name: {route.name}/{route.upstream_model}\n    litellm_params:\n"
            text += f"      model: {route.upstream}/{route.upstream_model}\n"
            text += f"      api_base: {url}\n      api_key: {KEY}\n"
        config = _write("litellm.yaml", text)
        command = [str(self.venv / "bin" / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
        env = {
            "LITELLM_MASTER_KEY": KEY,
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # prevents a download at start-up
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
        # Later releases of this dependency make every stream fail with "TypeError: immutable"
        # (https://github.com/Portkey-AI/gateway/issues/1389).
        wanted = {"dependencies": {"@portkey-ai/gateway": "*"}, "overrides": {"@hono/node-server": "1.14.1"}}
        (self.folder / "package.json").write_text(json.dumps(wanted), encoding="utf-8")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def launch(self) -> Launch:
        start = str(self.package / "build" / "start-server.js")
        return Launch(["node", start, f"--port={self.port}", "--headless"], {"NODE_ENV": "production"})

    def target(self, route: Route) -> Target | None:
        if route in RESPONSES_ROUTES:
            return None
        host = f"http://127.0.0.1:{self.upstream.port(route)}/v1"
        headers = {**BEARER, "x-portkey-provider": route.upstream, "x-portkey-custom-host": host}
        return Target(self.port, route.path, route.upstream_model, headers)


class TensorZero(Peer):
    """TensorZero's gateway as embedded in its Python package: an HTTP server written in Rust, without a database.

    The package chooses the port; `tensorzero_server.py` writes the address to a file.
    """

    name = "tensorzero"
    title = "TensorZero"
    venv = BUILD / "tensorzero-venv"
    address = BUILD / "tensorzero.url"

    def version(self) -> str | None:
        code = "from importlib.metadata import version; print(version('tensorzero'))"
        return _output([str(self.venv / "bin" / "python"), "-c", code])

    def install(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(self.venv)], check=True)
        pip = [str(self.venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "tensorzero"], check=True, stderr=subprocess.DEVNULL)

    def launch(self) -> Launch:
        text = "[gateway]\nobservability.enabled = false\ndisable_pseudonymous_usage_analytics = true\n"
        for route in BACKENDS:
            url = f"http://127.0.0.1:{self.upstream.port(route)}/v1"
            text += f'\n[models.{route.name}]\nrouting = ["it"]\n[models.{route.name}.providers.it]\n'
            text += f'type = "{route.upstream}"\nmodel_name = "{route.upstream_model}"\napi_base = "{url}"\n'
            text += 'api_key_location = "env::TENSORZERO_BENCH_KEY"\n'
        config = _write("tensorzero.toml", text)
        server = HERE / "tensorzero_server.py"
        command = [str(self.venv / "bin" / "python"), str(server), str(config), str(self.address)]
        return Launch(command, {"TENSORZERO_BENCH_KEY": KEY, "RUST_LOG": "error"})

    def target(self, route: Route) -> Target | None:
        if route.client != "chat" or route in RESPONSES_ROUTES:
            return None  # TensorZero has no Messages endpoint
        try:
            port = urlsplit(self.address.read_text(encoding="utf-8")).port or 0
        except OSError:
            port = 0
        return Target(port, f"/openai{CHAT_PATH}", f"tensorzero::model_name::{route.name}", BEARER)


PEERS: tuple[Peer, ...] = (Tieline(), Nginx(), TensorZero(), LiteLLM(), Portkey())
CURSOR_RUNS: tuple[Peer, ...] = (CursorRuns("http1", "HTTP/1.1"), CursorRuns("http2", "HTTP/2"))
"""Tieline with Cursor's service as its upstream. These are compared only with the first of PEERS."""
