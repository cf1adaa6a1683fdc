"""The Cursor backend: starts live runs, lists the models, and owns the services that all runs share."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tieline.backends.cursor.account import Account
from tieline.backends.cursor.conversations import CursorConversations
from tieline.backends.cursor.pipes import AttemptIds, Http1Pipe, Http2Pipe, Pipe, Transport
from tieline.backends.cursor.run import LiveRun
from tieline.backends.cursor.run_services import RunServices
from tieline.backends.cursor.tokens import owner_of
from tieline.backends.cursor.unary import ServerConfig, UnaryClient
from tieline.model.errors import GatewayError
from tieline.model.ports import Host, ModelInfo, Run
from tieline.model.request import Request
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.net.h2.client import Http2Client
from tieline.tasks import Tasks
from tieline.wire.cursor.identity import Identity, is_ghost
from tieline.wire.cursor.models import AUTO, DEFAULT, CursorModel, unlisted
from tieline.wire.cursor.opening.model_choice import split_model
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings
from tieline.wire.cursor.run.query_replies import QuerySettings

log = logging.getLogger("tieline.cursor")

OWN_HOST = "api2.cursor.sh"
"""Cursor's own API host. If another host is configured, the service may not choose the host for runs."""
MODELS_KEPT = 600.0
"""Seconds for which the list of models is cached."""
CONFIG_KEPT = 3600.0
"""Seconds for which the service's configuration is cached."""


@dataclass(frozen=True, slots=True)
class CursorOptions:
    """The backend's configuration. If `agent` (the address for runs) or `transport` is None, the service chooses it."""

    api: Origin
    agent: Origin | None
    transport: Transport | None
    identity: Identity
    timeouts: Timeouts
    settings: RunSettings
    machine_info: MachineInfo
    queries: QuerySettings
    models: tuple[str, ...] = ()
    stall_after: float = 120.0
    park_for: float = 900.0
    """Seconds that a run waits for the user's reply to a plan."""

    @property
    def is_host_open(self) -> bool:
        """Whether the service may choose the host for runs. Over HTTP/1.1, runs use the host of the API."""
        return self.agent is None and self.api.host == OWN_HOST and self.transport != "http1"


class CursorBackend:
    """Backend that starts runs with a Cursor account."""

    is_agent = False
    reads_options = True
    obeys_limits = False

    def __init__(
        self,
        options: CursorOptions,
        account: Account,
        http: HttpClient,
        duplex: Http2Client,
        *,
        mint_call: Callable[[], str],
        mint_id: Callable[[], str],
        mint_leg: Callable[[], str],
        clock: Callable[[], float],
        name: str = "cursor",
    ) -> None:
        self.name = name
        self._options = options
        self._account = account
        self._http = http
        self._duplex = duplex
        self._clock = clock
        self._tasks = Tasks()
        self._caller = UnaryClient(name, http, options.api, account, options.identity, mint_id, options.timeouts)
        self._identity = options.identity
        self._origin = options.agent or options.api
        self._transport: Transport = options.transport or ("http2" if options.api.scheme == "https" else "http1")
        self._config_at: float | None = None
        self._config_task: asyncio.Task[GatewayError | None] | None = None
        self._known: dict[str, CursorModel] = {}
        self._known_at: float | None = None
        self._conversations = CursorConversations(mint_id, wait_for=options.park_for)
        self._service = RunServices(
            name=name,
            account=account,
            open_pipe=self._pipe,
            transport=lambda: self._transport,
            changed_to=self._change_to,
            mint_call=mint_call,
            mint_id=mint_id,
            mint_leg=mint_leg,
            conversations=self._conversations,
            clock=clock,
            tasks=self._tasks,
            settings=options.settings,
            machine_info=options.machine_info,
            queries=options.queries,
            model=self._model,
            is_fixed=options.transport is not None,
            stall_after=options.stall_after,
        )

    async def models(self) -> Sequence[ModelInfo]:
        """Return the models that the account may use. The list is cached for ten minutes."""
        if self._options.models:
            return [unlisted(model) for model in self._options.models]
        now = self._clock()
        if self._known_at is None or now - self._known_at > MODELS_KEPT:
            models = await self._caller.models()
            self._known = {name: model for model in models for name in (model.id, *model.aliases)}
            self._known_at = now
        infos = {model.info().id: model.info() for model in self._known.values()}
        infos.setdefault(AUTO, unlisted(DEFAULT))
        return list(infos.values())

    async def start(self, request: Request, host: Host | None = None) -> Run:
        split_model(request.model)
        await self._ensure_config()
        if self._conversations.has_waiting and (run := await self._waiting_for(request, host)) is not None:
            return run
        return LiveRun(self._service, request, host)

    async def _waiting_for(self, request: Request, host: Host | None) -> LiveRun | None:
        """Pass the user's message to the run that waits for it, and return the run; None if no run accepts it."""
        owner = owner_of(await self._account.token(), request.owner)
        run = self._conversations.waiting_for(request.messages, owner)
        return run if isinstance(run, LiveRun) and run.reply(request, host) else None

    async def count(self, request: Request) -> int | None:  # noqa: ARG002 - the service has no such call
        return None

    async def aclose(self) -> None:
        self._conversations.aclose()
        await self._tasks.aclose()
        await self._account.aclose()
        await self._duplex.aclose()
        await self._http.aclose()

    async def _ensure_config(self) -> None:
        """Ask the service for settings that the user has not set: the transport, the host and the privacy mode.

        If the service has nothing to choose, it is not asked. Concurrent requests share one call. Requests wait only
        for the first call; later calls run in the background.
        """
        options, config_at = self._options, self._config_at
        is_open = options.transport is None or options.identity.ghost_mode is None or options.is_host_open
        if not is_open or (config_at is not None and self._clock() - config_at < CONFIG_KEPT):
            return
        task = self._config_task
        if task is None or task.done():
            task = self._config_task = self._tasks.start(self._load_config(), "asking for the configuration")
        if config_at is None:
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.result()) is not None:
                raise GatewayError(error.kind, error.message, status=error.status, code=error.code)

    async def _load_config(self) -> GatewayError | None:
        """Load the service's configuration and apply it. Return an error if the login is refused; log other errors."""
        try:
            self._apply(await self._caller.config(wants_privacy=self._options.identity.ghost_mode is None))
        except GatewayError as error:
            if error.kind == "unauthorized":
                return error
            log.info(
                "could not get the configuration from %s (%s); keeping the current settings", self.name, error.message
            )
        self._config_at = self._clock()
        return None

    def _apply(self, config: ServerConfig) -> None:
        options = self._options
        if options.identity.ghost_mode is None:
            self._identity = replace(options.identity, ghost_mode=is_ghost(config.privacy))
        if options.transport is None and config.transport is not None:
            self._transport = config.transport
        agent = config.public if self._identity.ghost_mode is False else config.private
        if options.is_host_open and agent is not None:
            self._origin = agent

    def _change_to(self, transport: Transport) -> None:
        self._transport = transport

    def _pipe(self, transport: Transport, token: str, ids: AttemptIds) -> Pipe:
        timeouts = self._options.timeouts
        if transport == "http2":
            return Http2Pipe(self._duplex, self._origin, self._identity, token, ids, timeouts)
        return Http1Pipe(self._http, self._options.api, self._identity, token, ids, timeouts)

    def _model(self, name: str) -> CursorModel | None:
        return self._known.get(name.partition("?")[0])
