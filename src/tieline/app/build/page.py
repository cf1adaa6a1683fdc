"""Everything the web page needs, put together: its sessions and where they are kept, files, accounts, the stream."""

import asyncio
import base64
import itertools
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from tieline import __version__
from tieline.app.build.accounts import CURSOR_MODES, cursor_backend
from tieline.app.build.agents import catalogue
from tieline.app.build.page_context import Surroundings
from tieline.app.build.upstreams import State, state_folder, user_folder
from tieline.app.config import AcpSettings
from tieline.app.late_backend import LateBackend
from tieline.app.store import DiskStore, MemoryStore
from tieline.backends.acp.catalogue import find, install_line
from tieline.backends.cursor.login import LOGIN_AGAIN, Login, begin_login, poll
from tieline.backends.cursor.store import Store as LoginStore
from tieline.core.sessions.sessions import PageSessions
from tieline.core.watch.bus import ModelsChanged
from tieline.model.content import File, Image
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Backend, Store
from tieline.net.client.http import HttpClient
from tieline.tools import files, seek
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import MODES
from tieline.tools.workspace import Workspace
from tieline.web.api import Api
from tieline.web.facts import AgentState, BackendState, Facts, LoginState
from tieline.web.pages import File as StaticFile
from tieline.web.pages import static_files
from tieline.web.stream import Stream
from tieline.web.turns import Renderings

TOOLS = "tools"
"""The state that is none of a backend."""
MOST_NAMES = 50_000
"""Files of a workspace that are looked at."""
MOST_FOUND = 50
NAMES_KEPT = 5.0
"""Seconds that the names of files are remembered while somebody types."""
MOST_ATTACHED = 256 * 1024
"""Characters of a file that go into a message."""
LOGIN_WITHIN = 900.0
"""Seconds that somebody has to finish a login."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page, ready to be served."""

    api: Api
    files: Mapping[str, StaticFile]
    sessions: PageSessions
    stream: Stream
    store: Store
    login: "CursorLogin | None"

    async def aclose(self) -> None:
        """Keep what is being said, and close."""
        await self.sessions.aclose()
        self.stream.close()
        await self.store.aclose()
        if self.login is not None:
            await self.login.aclose()


def build_page(around: Surroundings) -> Page:
    """The page of a gateway."""
    gateway, tasks, guard = around.gateway, around.tasks, around.guard
    folder = state_folder(around.env)
    store: Store = MemoryStore() if folder is None else DiskStore(folder)
    sessions = PageSessions(gateway, store, gateway.bus, tasks, mint=lambda: secrets.token_urlsafe(9), clock=time.time)
    renderings = Renderings(store)
    keep_alive = around.config.server.keep_alive
    stream = Stream(gateway.bus, gateway.inbox, tasks, renderings, clock=time.time, keep_alive=keep_alive)
    login = CursorLogin(around) if around.config.cursor.enabled is not False else None
    facts = _facts(around, login)
    api = Api(gateway, sessions, stream, renderings, guard, tasks, facts, token=around.token)
    return Page(api, static_files(), sessions, stream, store, login)


def _facts(around: Surroundings, login: "CursorLogin | None") -> Facts:
    config = around.config
    return Facts(
        version=__version__,
        backends=lambda: [_shown(state) for state in around.states if state.name != TOOLS],
        agents=lambda: _agents(config.acp, around.env),
        is_agent=lambda name: name in around.backends and around.backends[name].is_agent,
        modes=lambda model: _modes(model, around),
        ideas=lambda model: ideas(model, around),
        default_model=config.default_model,
        has_tools=around.workspace is not None,
        workspace=around.workspace,
        yolo=config.tools.yolo,
        files=WorkspaceFiles(around.workspace) if around.workspace is not None else None,
        login=login,
    )


def _shown(state: State) -> BackendState:
    lack = "" if state.is_ready else state.lack
    return BackendState(name=state.name, ready=state.is_ready, text=state.text, lack=lack)


def _modes(model: str, around: Surroundings) -> tuple[str, ...]:
    """How a model can work."""
    name, _, own_name = model.partition("/")
    backend = around.backends.get(name)
    if backend is None or backend.is_agent:
        return _agent_modes(backend, own_name)
    own = CURSOR_MODES if name == "cursor" else None
    if around.workspace is None:
        return own or ()
    return tuple(mode for mode in MODES if own is None or mode in own)


CODING = (
    "Explain what this project does",
    "Find out why a test fails, and fix it",
    "Make a plan before you change anything",
)
TALKING = (
    "Explain how HTTP caching works",
    "Write a regular expression that finds dates",
    "Compare SQLite and PostgreSQL for a small web app",
)
DEMO_WITH_TOOLS = (
    "Explain what this project does",
    "List the files, then read README.md",
    "Write hello to hello.txt, then run: cat hello.txt",
)
DEMO = ("What can you do?", "How do I connect a real model?", "How do I let models read and change files here?")
SIMULATED = ("Make a plan for a garden", "Ask me about the garden", "What can you do?")


def ideas(model: str, around: Surroundings) -> tuple[str, ...]:
    """What a model could be asked first: something that it can do with what is configured."""
    name = model.partition("/")[0]
    has_tools = around.workspace is not None
    if name == "demo":
        return DEMO_WITH_TOOLS if has_tools else DEMO
    if name == "cursor" and around.is_simulated:
        return SIMULATED
    backend = around.backends.get(name)
    return CODING if has_tools or (backend is not None and backend.is_agent) else TALKING


@runtime_checkable
class _HasModes(Protocol):
    """Agents that are there already; to import them for this would load all of their code."""

    def modes(self, agent: str) -> tuple[str, ...]: ...


def _agent_modes(backend: Backend | None, agent: str) -> tuple[str, ...]:
    """Agents have modes of their own, which they tell in their first session; until then those that most have."""
    made: object = backend.backend.made if isinstance(backend, LateBackend) else backend
    told = made.modes(agent) if isinstance(made, _HasModes) else ()
    return told or (MODES if backend is not None and backend.name == "acp" else ())


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


class _Begun(NamedTuple):
    """A login that somebody has to finish elsewhere."""

    url: str
    until: float
    waiting: asyncio.Task[None]


class CursorLogin:
    """A login that is begun in the page; when it is made, Cursor's models are there without a restart."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._begun: _Begun | None = None
        self._trouble = ""
        self._replaced: list[Backend] = []
        """Backends of earlier logins: what they began goes on."""

    def state(self) -> LoginState:
        """How the account stands."""
        if self._around.is_simulated:
            words = "A simulator of the service, with the demo model behind it."
            return LoginState(state="simulated", text=words, is_offered=False)
        if self._begun is not None:
            words = "Waiting for you to log in at the address that was opened."
            return LoginState(state="waiting", text=words, url=self._begun.url, until=self._begun.until)
        state = next((one for one in self._around.states if one.name == "cursor"), None)
        if state is None or not state.is_ready:
            return LoginState(state="none", text="Not logged in.", trouble=self._trouble)
        return LoginState(state="logged_in", text=state.text, trouble=self._trouble, is_offered=not self._has_key)

    async def begin(self) -> str:
        """Begin a login; one that was begun before is given up."""
        if self._around.is_simulated:
            raise BadRequest("Cursor is simulated here: there is nothing to log in to")
        if self._has_key:
            raise BadRequest("Cursor is used with an API key, which goes before any login")
        await self.cancel()
        login = begin_login(self._around.config.cursor.website_url, secrets.token_bytes)
        waiting = self._around.tasks.start(self._wait(login), "cursor-login")
        self._begun = _Begun(login.url, time.time() + LOGIN_WITHIN, waiting)
        self._tell()
        return login.url

    async def cancel(self) -> None:
        """Give up a login that was begun."""
        self._trouble = ""
        if self._begun is not None:
            self._begun.waiting.cancel()
            self._begun = None
            self._tell()

    async def aclose(self) -> None:
        """Close what belonged to earlier logins."""
        for backend in self._replaced:
            await backend.aclose()

    async def _wait(self, login: Login) -> None:
        try:
            async with asyncio.timeout(LOGIN_WITHIN):
                await self._poll(login)
            self._use()
        except TimeoutError:
            self._trouble = f"Nobody has used the link within {LOGIN_WITHIN / 60:.0f} minutes. Begin again."
        except GatewayError as error:
            self._trouble = error.message.replace(LOGIN_AGAIN, "Begin again.")
        self._begun = None
        self._tell()

    async def _poll(self, login: Login) -> None:
        client = HttpClient(proxies=self._around.proxies)
        try:
            api = self._around.config.cursor.api_url
            tokens = await poll(client, api, login, sleep=asyncio.sleep, clock=time.time)
            await LoginStore(user_folder(self._around.env)).save(tokens)
        finally:
            await client.aclose()

    def _use(self) -> None:
        """The new login counts from now on, in place of an earlier one too."""
        around = self._around
        made = cursor_backend(
            around.config.cursor,
            around.env,
            around.proxies,
            around.mint,
            park_for=around.config.parking.deadline,
        )
        if made is None:
            return
        backend, state = made
        if "cursor" in around.backends:
            self._replaced.append(around.backends["cursor"])
        around.backends["cursor"] = backend
        around.states[:] = [*(one for one in around.states if one.name != "cursor"), state]
        around.gateway.relist()

    def _tell(self) -> None:
        self._around.gateway.bus.publish(ModelsChanged())

    @property
    def _has_key(self) -> bool:
        settings = self._around.config.cursor
        return bool(settings.key_file or self._around.env.get(settings.key_env, "").strip())
