"""Everything the web page needs, put together: its sessions and where they are kept, files, accounts, the stream."""

import asyncio
import base64
import itertools
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from tieline import __version__
from tieline.agents import catalogue
from tieline.assembly import State, cursor_backend, state_folder, user_folder
from tieline.backends.acp.catalogue import find, install_line
from tieline.backends.cursor.login import Login, begin_login, poll
from tieline.backends.cursor.store import Store as LoginStore
from tieline.config import AcpSettings, Config
from tieline.core.bus import Bus, StateNews
from tieline.core.gateway import Gateway
from tieline.core.sessions import Sessions
from tieline.frontends.http import Guard, Routes
from tieline.model.content import File, Image
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Backend, Store
from tieline.net.http import HttpClient, Proxies
from tieline.store import DiskStore, MemoryStore
from tieline.tasks import Tasks
from tieline.tools import files, seek
from tieline.tools.failure import ToolFailed
from tieline.tools.keeper import MODES
from tieline.tools.workspace import Workspace
from tieline.web.api import Api
from tieline.web.facts import AgentState, BackendState, Facts, LoginState
from tieline.web.routes import page_routes
from tieline.web.stream import Stream
from tieline.web.turns import Renderings
from tieline.wire.cursor.choice import MODES as CURSOR_MODES

TOOLS = "tools"
"""The state that is none of a backend."""
MOST_NAMES = 50_000
"""Files of a workspace that are looked at."""
MOST_FOUND = 50
NAMES_KEPT = 5.0
"""Seconds that the names of files are remembered while somebody types."""
MOST_ATTACHED = 256 * 1024
"""Characters of a file that go into a message."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The program that the page is put into."""

    config: Config
    env: Mapping[str, str]
    gateway: Gateway
    guard: Guard
    tasks: Tasks
    backends: MutableMapping[str, Backend]
    states: list[State]
    proxies: Proxies
    mint: Callable[[], str]
    workspace: str | None = None
    """Where the gateway's own tools act, if they are on."""
    is_simulated: bool = False
    """Whether Cursor's service is one of our own."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page, ready to be served."""

    routes: Routes
    sessions: Sessions
    stream: Stream
    store: Store

    async def aclose(self) -> None:
        """Keep what is being said, and close."""
        await self.sessions.aclose()
        self.stream.close()
        await self.store.aclose()


def build_page(around: Surroundings, welcome: str) -> Page:
    """The page of a gateway."""
    gateway, tasks, guard = around.gateway, around.tasks, around.guard
    folder = state_folder(around.env)
    store: Store = MemoryStore() if folder is None else DiskStore(folder)
    sessions = Sessions(gateway, store, gateway.bus, tasks, mint=lambda: secrets.token_urlsafe(9), clock=time.time)
    renderings = Renderings(store)
    keep_alive = around.config.server.keep_alive
    stream = Stream(gateway.bus, gateway.inbox, tasks, renderings, clock=time.time, keep_alive=keep_alive)
    facts = _facts(around, welcome)
    api = Api(gateway, sessions, stream, renderings, guard, tasks, facts, token=secrets.token_urlsafe(24))
    return Page(page_routes(api, stream, welcome), sessions, stream, store)


def _facts(around: Surroundings, welcome: str) -> Facts:
    config = around.config
    return Facts(
        version=__version__,
        welcome=welcome,
        backends=lambda: [_shown(state) for state in around.states if state.name != TOOLS],
        agents=lambda: _agents(config.acp, around.env),
        is_agent=lambda name: name in around.backends and around.backends[name].is_agent,
        modes=lambda name: _modes(around.backends.get(name), around),
        default_model=config.default_model,
        has_tools=around.workspace is not None,
        workspace=around.workspace,
        files=WorkspaceFiles(around.workspace) if around.workspace is not None else None,
        login=CursorLogin(around) if config.cursor.enabled is not False else None,
    )


def _shown(state: State) -> BackendState:
    lack = "" if state.is_ready else state.lack
    return BackendState(name=state.name, ready=state.is_ready, text=state.text, lack=lack)


def _modes(backend: Backend | None, around: Surroundings) -> tuple[str, ...]:
    """How the models of a backend can work; agents have modes of their own, which only they know."""
    if backend is None or backend.is_agent:
        return ()
    own = tuple(CURSOR_MODES) if backend.name == "cursor" else None
    if around.workspace is None:
        return own or ()
    return tuple(mode for mode in MODES if own is None or mode in own)


def _agents(settings: AcpSettings, env: Mapping[str, str]) -> Sequence[AgentState]:
    if not settings.enabled:
        return ()
    path = env.get("PATH", "")
    return [
        AgentState(
            id=spec.id,
            title=spec.title,
            ready=find(spec, lambda name: shutil.which(name, path=path)).command is not None,
            install=install_line(spec),
            login=spec.login,
        )
        for spec in catalogue(settings).values()
    ]


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


class WorkspaceFiles:
    """The files of the workspace, for a person who puts them into a message."""

    def __init__(self, root: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._workspace = Workspace(root)
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._read_at: float | None = None

    async def find(self, query: str) -> Sequence[str]:
        if self._read_at is None or self._clock() - self._read_at > NAMES_KEPT:
            self._names = await asyncio.to_thread(self._list)
            self._read_at = self._clock()
        return await asyncio.to_thread(best, self._names, query, MOST_FOUND)

    async def read(self, path: str) -> Image | File:
        try:
            return await asyncio.to_thread(self._content, path)
        except ToolFailed as error:
            raise BadRequest(str(error), "files") from error

    def _list(self) -> tuple[str, ...]:
        root = self._workspace.root
        found = itertools.islice(seek.files(root, seek.SKIPPED), MOST_NAMES)
        return tuple(os.path.relpath(path, root) for path in found)

    def _content(self, path: str) -> Image | File:
        with self._workspace.open(path) as opened:
            data = opened.stream.read(files.MAX_IMAGE + 1)
            name = opened.path
        if len(data) > files.MAX_IMAGE:
            raise ToolFailed(f"`{name}` is larger than what goes into a message ({files.MAX_IMAGE >> 20} MiB)")
        if media_type := files.image_type(data[: files.SNIFFED]):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
        if b"\0" in data[: files.SNIFFED]:
            raise ToolFailed(f"`{name}` is no text")
        text = data.decode("utf-8", "replace")
        if len(text) > MOST_ATTACHED:
            text = f"{text[:MOST_ATTACHED]}\n… ({len(text) - MOST_ATTACHED} characters more)"
        return File(media_type="text/plain", data=base64.b64encode(text.encode()).decode(), name=name)


def best(names: Sequence[str], query: str, most: int) -> list[str]:
    """The names that have the letters of a query in their order, the closest first."""
    wanted = query.lower().strip()
    ranked = ((_rank(name.lower(), wanted), name) for name in names)
    found = sorted((rank, len(name), name) for rank, name in ranked if rank is not None)
    return [name for _, _, name in found[:most]]


def _rank(name: str, wanted: str) -> int | None:
    base = name.rpartition("/")[2]
    if base.startswith(wanted):
        return 0
    if wanted in base:
        return 1
    if wanted in name:
        return 2
    letters = iter(name)
    return 3 if all(letter in letters for letter in wanted) else None


# ── Logging in to Cursor ─────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class CursorLogin:
    """A login that is begun in the page; when it is made, Cursor's models are there without a restart."""

    around: Surroundings
    _trouble: str = field(default="", init=False)
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def state(self) -> LoginState:
        """How the account stands."""
        if self.around.is_simulated:
            return LoginState(state="simulated", text="A simulator of the service, with the demo model behind it.")
        state = next((one for one in self.around.states if one.name == "cursor"), None)
        if state is not None and state.is_ready:
            return LoginState(state="logged_in", text=state.text)
        if self._waiting is not None and not self._waiting.done():
            return LoginState(state="none", text="Waiting for you to log in at the address that was opened.")
        return LoginState(state="none", text=self._trouble or "Not logged in.")

    async def begin(self) -> str:
        """Begin a login; one that was begun before is given up."""
        if self.around.is_simulated:
            raise BadRequest("Cursor is simulated here: there is nothing to log in to")
        if self._waiting is not None:
            self._waiting.cancel()
        login = begin_login(self.around.config.cursor.website_url, secrets.token_bytes)
        self._waiting = self.around.tasks.start(self._wait(login), "cursor-login")
        return login.url

    async def _wait(self, login: Login) -> None:
        settings, env = self.around.config.cursor, self.around.env
        client = HttpClient(proxies=self.around.proxies)
        try:
            tokens = await poll(client, settings.api_url, login, sleep=asyncio.sleep, clock=time.time)
            await LoginStore(user_folder(env)).save(tokens)
            self._trouble = ""
            self._ready()
        except GatewayError as error:
            self._trouble = error.message
        finally:
            await client.aclose()
            self._bus.tell(StateNews())

    @property
    def _bus(self) -> Bus:
        return self.around.gateway.bus

    def _ready(self) -> None:
        around = self.around
        made = cursor_backend(around.config.cursor, around.env, around.proxies, around.mint)
        if made is None:
            return
        backend, state = made
        around.states[:] = [one for one in around.states if one.name != "cursor"]
        around.states.append(state)
        around.backends.setdefault("cursor", backend)
        around.gateway.relist()
