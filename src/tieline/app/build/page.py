"""Builds the web page: its sessions and their store, the workspace files, the Cursor login and the event stream."""

import asyncio
import base64
import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from tieline import __version__
from tieline.app.build.agents import catalogue, which_in
from tieline.app.build.cursor import CURSOR_MODES, cursor_backend
from tieline.app.build.page_context import PageContext
from tieline.app.build.status import TOOLS, BackendStatus
from tieline.app.config import AcpSettings
from tieline.app.folders import state_folder, user_folder
from tieline.app.lazy_backend import LazyBackend
from tieline.app.store import DiskStore, MemoryStore
from tieline.backends.acp.catalogue import find, install_line
from tieline.backends.cursor.login import LOGIN_AGAIN, Login, begin_login, poll
from tieline.backends.cursor.store import Store as LoginStore
from tieline.core.sessions.sessions import Sessions
from tieline.core.watch.bus import StateNews
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

MOST_NAMES = 50_000
"""Maximum number of workspace files that are listed."""
MOST_FOUND = 50
NAMES_KEPT = 5.0
"""Seconds for which the list of files is cached while the user types."""
MOST_ATTACHED = 256 * 1024
"""Maximum number of characters of an attached file."""
LOGIN_WITHIN = 900.0
"""Seconds that the user has to finish a login."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page, ready to be served."""

    api: Api
    files: Mapping[str, StaticFile]
    sessions: Sessions
    stream: Stream
    store: Store
    login: "CursorLogin | None"

    async def aclose(self) -> None:
        """Save running answers and close."""
        await self.sessions.aclose()
        self.stream.close()
        await self.store.aclose()
        if self.login is not None:
            await self.login.aclose()


def build_page(context: PageContext) -> Page:
    """Build the page."""
    gateway, tasks, guard = context.gateway, context.tasks, context.guard
    folder = state_folder(context.env)
    store: Store = MemoryStore() if folder is None else DiskStore(folder)
    sessions = Sessions(gateway, store, gateway.bus, tasks, mint=lambda: secrets.token_urlsafe(9), clock=time.time)
    renderings = Renderings(store)
    keep_alive = context.config.server.keep_alive
    stream = Stream(gateway.bus, gateway.inbox, tasks, renderings, clock=time.time, keep_alive=keep_alive)
    login = CursorLogin(context) if context.config.cursor.enabled is not False else None
    facts = _facts(context, login)
    api = Api(gateway, sessions, stream, renderings, guard, tasks, facts, token=context.token)
    return Page(api, static_files(), sessions, stream, store, login)


def _facts(context: PageContext, login: "CursorLogin | None") -> Facts:
    config = context.config
    backends = context.backends.by_name
    return Facts(
        version=__version__,
        backends=lambda: [_shown(status) for status in context.backends.statuses if status.name != TOOLS],
        agents=lambda: _agents(config.acp, context.env),
        is_agent=lambda name: name in backends and backends[name].is_agent,
        modes=lambda model: _modes(model, context),
        ideas=lambda model: ideas(model, context),
        default_model=config.default_model,
        has_tools=context.workspace is not None,
        workspace=context.workspace,
        yolo=config.tools.yolo,
        files=WorkspaceFiles(context.workspace) if context.workspace is not None else None,
        login=login,
    )


def _shown(status: BackendStatus) -> BackendState:
    lack = "" if status.is_ready else status.missing
    return BackendState(name=status.name, ready=status.is_ready, text=status.text, lack=lack)


def _modes(model: str, context: PageContext) -> tuple[str, ...]:
    """Return the modes that the user can choose for a model."""
    name, _, own_name = model.partition("/")
    backend = context.backends.by_name.get(name)
    if backend is None or backend.is_agent:
        return _agent_modes(backend, own_name)
    own = CURSOR_MODES if name == "cursor" else None
    if context.workspace is None:
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


def ideas(model: str, context: PageContext) -> tuple[str, ...]:
    """Return suggestions for a first message that suit the model and the configured tools."""
    name = model.partition("/")[0]
    has_tools = context.workspace is not None
    if name == "demo":
        return DEMO_WITH_TOOLS if has_tools else DEMO
    if name == "cursor" and context.is_simulated:
        return SIMULATED
    backend = context.backends.by_name.get(name)
    return CODING if has_tools or (backend is not None and backend.is_agent) else TALKING


@runtime_checkable
class _HasModes(Protocol):
    """The backend of coding agents. Importing its class here would load all of its code."""

    def modes(self, agent: str) -> tuple[str, ...]: ...


def _agent_modes(backend: Backend | None, agent: str) -> tuple[str, ...]:
    """Return the modes that an agent reported in its first session; before that, the usual ones."""
    made: object = backend.backend.made if isinstance(backend, LazyBackend) else backend
    reported = made.modes(agent) if isinstance(made, _HasModes) else ()
    return reported or (MODES if backend is not None and backend.name == "acp" else ())


def _agents(settings: AcpSettings, env: Mapping[str, str]) -> Sequence[AgentState]:
    if not settings.enabled:
        return ()
    which = which_in(env)
    return [
        AgentState(
            id=spec.id,
            title=spec.title,
            ready=find(spec, which).command is not None,
            install=install_line(spec),
            login=spec.login,
        )
        for spec in catalogue(settings).values()
    ]


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


class WorkspaceFiles:
    """The files of the workspace that the user can attach to a message."""

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
            raise ToolFailed(f"`{name}` is too large for a message (the limit is {files.MAX_IMAGE >> 20} MiB)")
        if media_type := files.image_type(data[: files.SNIFFED]):
            return Image(media_type=media_type, data=base64.b64encode(data).decode())
        if b"\0" in data[: files.SNIFFED]:
            raise ToolFailed(f"`{name}` is neither text nor an image")
        text = data.decode("utf-8", "replace")
        if len(text) > MOST_ATTACHED:
            text = f"{text[:MOST_ATTACHED]}\n… ({len(text) - MOST_ATTACHED} more characters)"
        return File(media_type="text/plain", data=base64.b64encode(text.encode()).decode(), name=name)


def best(names: Sequence[str], query: str, most: int) -> list[str]:
    """Return the names that contain the letters of a query in order, the best match first."""
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


class _PendingLogin(NamedTuple):
    """A login that the user has to finish in the browser."""

    url: str
    until: float
    waiting: asyncio.Task[None]


class CursorLogin:
    """Logs in to Cursor from the page. Afterwards, Cursor's models are available without a restart."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._pending: _PendingLogin | None = None
        self._problem = ""
        self._replaced: list[Backend] = []
        """Backends of earlier logins, kept open for their running requests."""

    def state(self) -> LoginState:
        """Return the state of the login for the page."""
        if self._context.is_simulated:
            text = "Simulated: the demo model answers in place of Cursor's service."
            return LoginState(state="simulated", text=text, is_offered=False)
        if self._pending is not None:
            text = "Waiting for you to log in on the page that was opened."
            return LoginState(state="waiting", text=text, url=self._pending.url, until=self._pending.until)
        status = next((one for one in self._context.backends.statuses if one.name == "cursor"), None)
        if status is None or not status.is_ready:
            return LoginState(state="none", text="Not logged in.", trouble=self._problem)
        return LoginState(state="logged_in", text=status.text, trouble=self._problem, is_offered=not self._has_key)

    async def begin(self) -> str:
        """Start a login and return its URL. An earlier unfinished login is cancelled."""
        if self._context.is_simulated:
            raise BadRequest("Cursor is simulated; there is nothing to log in to")
        if self._has_key:
            raise BadRequest("An API key for Cursor is configured, so no login is needed")
        await self.cancel()
        login = begin_login(self._context.config.cursor.website_url, secrets.token_bytes)
        waiting = self._context.tasks.start(self._wait(login), "cursor-login")
        self._pending = _PendingLogin(login.url, time.time() + LOGIN_WITHIN, waiting)
        self._notify()
        return login.url

    async def cancel(self) -> None:
        """Cancel an unfinished login."""
        self._problem = ""
        if self._pending is not None:
            self._pending.waiting.cancel()
            self._pending = None
            self._notify()

    async def aclose(self) -> None:
        """Close the backends of earlier logins."""
        for backend in self._replaced:
            await backend.aclose()

    async def _wait(self, login: Login) -> None:
        try:
            async with asyncio.timeout(LOGIN_WITHIN):
                await self._poll(login)
            self._replace_backend()
        except TimeoutError:
            self._problem = f"The link was not used within {LOGIN_WITHIN / 60:.0f} minutes. Start again."
        except GatewayError as error:
            self._problem = error.message.replace(LOGIN_AGAIN, "Start again.")
        self._pending = None
        self._notify()

    async def _poll(self, login: Login) -> None:
        client = HttpClient(proxies=self._context.proxies)
        try:
            api = self._context.config.cursor.api_url
            tokens = await poll(client, api, login, sleep=asyncio.sleep, clock=time.time)
            await LoginStore(user_folder(self._context.env)).save(tokens)
        finally:
            await client.aclose()

    def _replace_backend(self) -> None:
        """Use the new login for all new requests."""
        context = self._context
        made = cursor_backend(
            context.config.cursor,
            context.env,
            context.proxies,
            context.new_leg_id,
            park_for=context.config.parking.deadline,
        )
        if made is None:
            return
        replaced = context.backends.put("cursor", *made)
        if replaced is not None:
            self._replaced.append(replaced)
        context.gateway.relist()

    def _notify(self) -> None:
        self._context.gateway.bus.tell(StateNews())

    @property
    def _has_key(self) -> bool:
        settings = self._context.config.cursor
        return bool(settings.key_file or self._context.env.get(settings.key_env, "").strip())
