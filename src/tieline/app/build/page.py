"""Builds the web page: its sessions, their store, the workspace files, the Cursor login and the event stream."""

import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from tieline import __version__
from tieline.app.build.admin import PageKeys, PageUsage
from tieline.app.build.agent_install import PageInstaller
from tieline.app.build.agents import catalogue, install_command, which_in
from tieline.app.build.cursor import CURSOR_MODES
from tieline.app.build.cursor_login import CursorLogin
from tieline.app.build.examples import EXAMPLES, ExampleTools
from tieline.app.build.page_context import PageContext
from tieline.app.build.status import TOOLS, BackendStatus
from tieline.app.build.upstream_setup import AddedUpstreams
from tieline.app.config import AcpSettings
from tieline.app.lazy_backend import LazyBackend
from tieline.backends.acp.catalogue import find, install_line
from tieline.core.legs.access import NO_RIGHTS, Rights
from tieline.core.sessions.sessions import PageSessions, no_examples
from tieline.core.sessions.stored_session import SHELF
from tieline.frontends.guard import Guard
from tieline.frontends.keys import OWN_KEY
from tieline.model.ports import Backend, Store
from tieline.tools.guarded_tools import MODES
from tieline.web.api import PageApi
from tieline.web.embed import EmbedPage
from tieline.web.gateway_info import AgentState, BackendState, GatewayInfo
from tieline.web.static_files import PAGES, StaticFile, static_files
from tieline.web.stream import Stream
from tieline.web.turn_renderer import TurnRenderer


@dataclass(frozen=True, slots=True)
class Page:
    """The web page, ready to be served."""

    api: PageApi
    files: Mapping[str, StaticFile]
    sessions: PageSessions
    stream: Stream
    embed: EmbedPage
    store: Store
    login: CursorLogin | None
    installer: PageInstaller | None

    async def aclose(self) -> None:
        """Save the answers in progress, and close everything that the page uses."""
        await self.sessions.aclose()
        await self.stream.finish()
        if self.installer is not None:
            await self.installer.aclose()
        self.stream.close()
        await self.store.aclose()
        if self.login is not None:
            await self.login.aclose()


def build_page(context: PageContext) -> Page:
    """Build the web page."""
    gateway, tasks, guard = context.gateway, context.tasks, context.guard
    cluster = context.cluster
    store = context.storage.store(announced=(SHELF,))
    examples = ExampleTools(context.env, context.audit) if context.config.demo else None
    sessions = PageSessions(
        gateway,
        store,
        gateway.bus,
        tasks,
        mint=lambda: secrets.token_urlsafe(9),
        clock=time.time,
        examples=examples.open if examples is not None else no_examples,
        claims=None if cluster is None else cluster.claims,
        rights=partial(_rights, guard),
    )
    renderings = TurnRenderer(store)
    keep_alive = context.config.server.keep_alive
    stream = Stream(
        gateway.bus,
        gateway.inbox,
        tasks,
        renderings,
        clock=time.time,
        keep_alive=keep_alive,
        log=None if cluster is None else cluster.stream_log,
    )
    if cluster is not None:
        stream.attend()
    login = CursorLogin(context) if context.config.cursor.enabled is not False else None
    installer = PageInstaller(context) if context.config.web.setup and context.config.acp.enabled else None
    facts = _facts(context, login, installer, examples)
    api = PageApi(
        gateway,
        sessions,
        stream,
        renderings,
        guard,
        tasks,
        facts,
        token=context.token,
        traffic=context.traffic,
        replicas=None if cluster is None else cluster.replicas,
    )
    files = static_files()
    embed = EmbedPage(
        files[PAGES["/"]],
        guard,
        context.token,
        check=context.workspaces.info,
        mint=partial(secrets.token_urlsafe, 24),
        clock=time.monotonic,
    )
    return Page(api, files, sessions, stream, embed, store, login, installer)


def _rights(guard: Guard, owner: str) -> Rights:
    """Return the rights of a key in sessions of the page. An empty name stands for the gateway's own key."""
    key = guard.key_named(owner) if owner else OWN_KEY
    if key is None:
        return NO_RIGHTS
    return Rights(key.access, tools=key.is_admin or key.tools)


def _facts(
    context: PageContext, login: CursorLogin | None, installer: PageInstaller | None, examples: ExampleTools | None
) -> GatewayInfo:
    config = context.config
    backends = context.backends.by_name
    return GatewayInfo(
        version=__version__,
        backends=lambda: [_shown(status) for status in context.backends.statuses if status.name != TOOLS],
        agents=lambda: _agents(config.acp, context.env),
        is_agent=lambda name: name in backends and backends[name].is_agent,
        modes=lambda model, has_tools: _modes(model, context, has_tools),
        ideas=lambda model, has_tools: ideas(model, context, has_tools),
        default_model=config.default_model,
        workspaces=context.workspaces,
        login=login,
        examples=EXAMPLES if examples is not None else (),
        example_folder=str(examples.folder) if examples is not None else None,
        upstreams=AddedUpstreams(context) if config.web.setup else None,
        keys=_key_admin(context),
        usage=None if context.usage is None else PageUsage(context.storage, context.usage),
        installer=installer,
    )


def _key_admin(context: PageContext) -> PageKeys | None:
    if context.usage is None or context.usage.stored is None:
        return None
    return PageKeys(context.storage, context.usage.stored, tuple(context.config.keys))


def _shown(status: BackendStatus) -> BackendState:
    lack = "" if status.is_ready else status.missing
    return BackendState(name=status.name, ready=status.is_ready, text=status.text, lack=lack, source=status.source)


def _modes(model: str, context: PageContext, has_tools: bool) -> tuple[str, ...]:
    """Return the modes that the user can choose for a model."""
    name, _, own_name = model.partition("/")
    backend = context.backends.by_name.get(name)
    if backend is None or backend.is_agent:
        return _agent_modes(backend, own_name)
    own = CURSOR_MODES if name == "cursor" else None
    if not has_tools:
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


def ideas(model: str, context: PageContext, has_tools: bool) -> tuple[str, ...]:
    """Return suggestions for a first message that suit the model and the configured tools."""
    name = model.partition("/")[0]
    if name == "demo":
        return DEMO_WITH_TOOLS if has_tools else DEMO
    if name == "cursor" and context.is_simulated:
        return SIMULATED
    backend = context.backends.by_name.get(name)
    return CODING if has_tools or (backend is not None and backend.is_agent) else TALKING


@runtime_checkable
class _HasModes(Protocol):
    """The part of the ACP backend that the page uses. Importing the backend's class would be too slow."""

    def modes(self, agent: str) -> tuple[str, ...]: ...


def _agent_modes(backend: Backend | None, agent: str) -> tuple[str, ...]:
    """Return the modes that an agent's sessions have reported. If there are none, return the common modes of agents."""
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
            command=shlex.join(install_command(spec)),
        )
        for spec in catalogue(settings).values()
    ]
