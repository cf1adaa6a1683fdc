"""The gateway: receives requests from frontends, and returns the legs that answer them."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from msgspec.structs import replace

from tieline.core.emulation.forced_output import ForcedOutputRun, forces_output
from tieline.core.emulation.limits import Limits
from tieline.core.history.thinking import ThinkingMemory
from tieline.core.history.tidy import tidy
from tieline.core.history.token_estimate import estimate
from tieline.core.inbox.inbox import Inbox, InboxHuman
from tieline.core.legs.access import ModelAccess
from tieline.core.legs.activity_text import ActivityRenderer
from tieline.core.legs.background import is_background
from tieline.core.legs.forwarding import ForwardedLeg, ForwardedRequest
from tieline.core.legs.leg import INTERNAL_ERROR, Ledger, LedgerEntry, LegClient, OpenRun, WatchedLeg
from tieline.core.legs.model_facts import ModelDescriptions
from tieline.core.legs.model_list import ModelList
from tieline.core.legs.parking import CAPACITY, DEADLINE, ParkedRuns
from tieline.core.legs.resume import decide
from tieline.core.legs.routing import ModelRoute, Router
from tieline.core.legs.turn import GatewayToolsRun, with_gateway_tools
from tieline.core.legs.variants import Variant
from tieline.core.repair.repairs import DEFAULT, RepairName, Repairs
from tieline.core.usage.meter import Meter
from tieline.core.watch.bus import Bus
from tieline.core.watch.metrics import Metrics
from tieline.core.watch.record import MAX_MODEL
from tieline.core.watch.secrets import Secrets
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.model.events import Note, left_out
from tieline.model.ports import Backend, Host, Run, Toolbox, speaks
from tieline.model.request import Request
from tieline.model.workspaces import Workspaces
from tieline.tasks import Tasks, step_aside

log = logging.getLogger("tieline")

LARGE_REQUEST = 256 * 1024
"""After preparing a request with more than this many bytes, let other tasks run before starting or resuming its run."""
DEFAULT_MODE = "agent"

_MODE_OF_TOOLS = {"chat": "chat", "ask": "chat", "plan": "plan"}
"""Maps the modes of upstreams to modes of the gateway's tools. All other modes are mapped to DEFAULT_MODE."""


class TokenCount(NamedTuple):
    """The number of tokens in a prompt."""

    tokens: int
    is_estimated: bool


class _Prepared(NamedTuple):
    """A request that is ready to be sent to its backend, and the stages that process the answer."""

    backend: Backend
    request: Request
    """The request in the form that the backend receives."""
    limits: Limits | None
    repairs: Repairs | None


class Gateway:
    """Starts or resumes a run for each request, and returns the leg that answers the request.

    `open` prepares a request: it finds the route, normalises the history and restores thinking. Then it resumes or
    starts a run, and returns the leg. The leg reads events from the run and passes them to the caller.
    """

    def __init__(
        self,
        router: Router,
        *,
        tasks: Tasks,
        inbox: Inbox,
        toolbox: Toolbox | None = None,
        workspaces: Workspaces | None = None,
        clock: Callable[[], float],
        park_for: float = DEADLINE,
        park_at_most: int = CAPACITY,
        repairs: Mapping[str, frozenset[RepairName]] | None = None,
        secrets: Secrets | None = None,
        bus: Bus | None = None,
        conversations: BoundedCache[tuple[Any, ...], Any] | None = None,
        descriptions: ModelDescriptions | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.conversations = BoundedCache(0) if conversations is None else conversations
        """The conversation cache that parsers and builders of all dialects share."""
        self.bus = bus or Bus(clock=clock, secrets=secrets)
        self.metrics = Metrics(self.bus.records, self.conversations)
        self.inbox = inbox
        self._toolbox = toolbox
        self._workspaces = workspaces
        self._router = router
        self._repairs = repairs or {}
        self._secrets = secrets or Secrets()
        self._thinking = ThinkingMemory()
        self._parked_runs = ParkedRuns(tasks, self.metrics, deadline=park_for, capacity=park_at_most)
        self._ledger = Ledger(
            self.bus.records,
            self.metrics,
            self._thinking,
            self._parked_runs,
            self._secrets,
            clock,
            self.bus.mint,
            meter=meter,
        )
        self.models = ModelList(router, self._secrets, clock, descriptions)

    async def open(self, request: Request, client: LegClient) -> WatchedLeg:
        """Start a run for a request, or resume the parked run that waits for its tool results, and return the leg.

        The caller must close the leg. If the run cannot be started, no exception is raised. Instead, the only event of
        the leg is the failure.
        """
        if not request.model:
            with contextlib.suppress(GatewayError):  # routing raises it again
                request = self.named(request)
        entry = LedgerEntry(request, client, self._ledger)
        try:
            prepared = self._prepare(request, entry, *await self._route(request, client.access, client.workspace))
            entry.admit()
            if client.request_size > LARGE_REQUEST:
                await step_aside()
            return WatchedLeg(entry, await self._open_run(prepared, entry))
        except GatewayError as error:
            return WatchedLeg(entry, None, error)
        except Exception:
            # A bug: the client gets an error that it can parse, and the log gets the traceback.
            log.exception("could not start a run for %s", request.model[:MAX_MODEL])
            return WatchedLeg(entry, None, INTERNAL_ERROR)
        except BaseException:
            entry.settle(None, None, ())
            raise

    def holds(self, owner: str, call_id: str) -> bool:
        """Return whether a parked run of a client waits for the result of a call."""
        return call_id in self._parked_runs.waiting.get(owner, ())

    @property
    def is_idle(self) -> bool:
        """Whether no leg is open and no run is parked."""
        return not self.metrics.open_legs and not self.metrics.parked

    def named(self, request: Request) -> Request:
        """Return the request, with the default model if it names none. Raise GatewayError if no default is set."""
        return request if request.model else replace(request, model=self._router.default_name())

    def forward(self, request: ForwardedRequest) -> ForwardedLeg:
        """Forward a request to its upstream without translating it. The caller must close the returned leg."""
        return ForwardedLeg(request, self._ledger, self._find)

    async def count(self, request: Request, access: ModelAccess | None = None) -> TokenCount:
        """Return the number of tokens in a prompt. If the upstream cannot count them, the number is estimated."""
        request = self.named(request)
        route, _ = await self._route(request, access)
        messages, _ = tidy(request.messages)
        try:
            tokens = await route.backend.count(replace(request, model=route.model, messages=messages))
        except GatewayError as error:
            error.message = self._secrets.hide(error.message)
            raise
        return TokenCount(estimate(request), True) if tokens is None else TokenCount(tokens, False)

    async def aclose(self) -> None:
        """Close the parked runs."""
        await self._parked_runs.aclose()

    # ── From a request to a run ──────────────────────────────────────────────────────────────────

    async def _find(self, name: str, access: ModelAccess | None) -> ModelRoute:
        # If the client's models are limited, the router must check the name, even if its route is cached.
        route = self._router.routes.get(name) if access is None else None
        return route or await self.models.route(name, access)

    async def _route(
        self, request: Request, access: ModelAccess | None, workspace: str = ""
    ) -> tuple[ModelRoute, str | None]:
        """Return the route and the mode of a request.

        `?mode=` in the model name sets the mode. If the backend parses such options itself, `?mode=` stays in the
        name.
        """
        if "?mode=" in request.model and (self._toolbox is not None or workspace):
            name, _, mode = request.model.partition("?mode=")
            route = await self._find(name, access)
            if not route.backend.reads_options:
                return route, mode
        return await self._find(request.model, access), request.mode

    def _prepare(self, request: Request, entry: LedgerEntry, route: ModelRoute, mode: str | None) -> _Prepared:
        """Return the request in the form that its backend receives, and the stages that process the answer."""
        backend, model, variant = route
        entry.routed(backend.name, model)
        if variant is not None:
            request = _with_variant(request, variant, entry)
        messages, notes = tidy(request.messages)
        for note in notes:
            entry.note(note)
        enabled = self._repairs.get(backend.name, DEFAULT)
        repairs = Repairs(request.tools, enabled, messages) if request.tools and enabled else None
        has_limits = request.sampling.max_tokens is not None or bool(request.sampling.stop)
        limits = Limits(request) if has_limits and not backend.obeys_limits else None
        if mode and backend.reads_options and "?" not in model:
            model = f"{model}?mode={mode}"
        if self._thinking.has_entries:
            messages = self._thinking.restore(backend.name, messages)
        # Drop a source that the backend cannot use, because a parked run would keep it in memory for a long time.
        source = request.source if speaks(backend, request.protocol) else None
        request = replace(
            request,
            model=model,
            messages=messages,
            mode=mode,
            source=source,
            owner=entry.client.owner,
            workspace=entry.client.workspace,
        )
        return _Prepared(backend, request, limits, repairs)

    async def _open_run(self, prepared: _Prepared, entry: LedgerEntry) -> OpenRun:
        """Resume the parked run that waits for this request, or start a new one."""
        if entry.client.owner in self._parked_runs.waiting:
            resumed = await self._resume(prepared, entry)
            if resumed is not None:
                return resumed
        backend, request, limits, repairs = prepared
        client, host = entry.client, Host(InboxHuman(self.inbox, entry.origin))
        if backend.is_agent:
            run = await self._start(backend, request, host)
            return OpenRun(run, limits, repairs, ActivityRenderer(client.activity))
        toolbox = client.toolbox or self._toolbox
        if client.workspace and client.toolbox is None and client.gets_tools and self._workspaces is not None:
            toolbox = await self._workspaces.toolbox(client.workspace)
        if toolbox is not None and client.gets_tools and not request.tools and not _is_background(entry):
            tools = toolbox.open(_mode_of_tools(request, backend))
            started = await self._start(backend, with_gateway_tools(request, tools), host)
            run = GatewayToolsRun(started, tools, host, request)
            return OpenRun(run, limits, repairs, ActivityRenderer(client.activity), run.rounds)
        return OpenRun(await self._start(backend, request, host), limits, repairs)

    def _start(self, backend: Backend, request: Request, host: Host) -> Awaitable[Run]:
        """Start a run. If the backend does not support forced tool calls and JSON output, emulate them."""
        if backend.obeys_limits or not forces_output(request):
            return backend.start(request, host)
        return ForcedOutputRun.open(lambda modified: backend.start(modified, host), request)

    async def _resume(self, prepared: _Prepared, entry: LedgerEntry) -> OpenRun | None:
        """Resume the parked run that waits for the results in this request, if there is one."""
        request = entry.request
        decision = decide(
            request.messages,
            entry.backend,
            entry.model,
            self._parked_runs.waiting.get(entry.client.owner, {}),
            offers_tools=bool(request.tools) and request.tool_choice.mode != "none",
        )
        for dropped in decision.close:
            self._parked_runs.close(dropped)
        parked = decision.resume
        if parked is None or not self._parked_runs.claim(parked):
            return None
        self.metrics.resumed += 1
        entry.record.is_resumed = True
        try:
            await parked.run.answer(decision.results, prepared.request, decision.words)
        except BaseException:
            await parked.run.aclose()
            raise
        activities = ActivityRenderer(entry.client.activity) if parked.is_shown else None
        return OpenRun(parked.run, prepared.limits, prepared.repairs, activities)


def _with_variant(request: Request, variant: Variant, entry: LedgerEntry) -> Request:
    """Return the request with the thinking that its model name asks for. Settings in the request take precedence."""
    if variant.is_fast:
        entry.note(left_out("-fast", "this suffix of a model name has no meaning here"))
    own = request.reasoning
    if variant.reasoning is None or own.mode is not None or own.effort is not None or own.budget is not None:
        return request
    return replace(request, reasoning=replace(variant.reasoning, meta=own.meta))


def _is_background(entry: LedgerEntry) -> bool:
    """Return whether this is a background request, which must not be offered the gateway's tools. If so, add a note."""
    if not entry.client.sends_background or not is_background(entry.request):
        return False
    message = "the gateway's tools were not offered: this looks like a background request from the client"
    entry.note(Note(kind="tools", message=message))
    return True


def _mode_of_tools(request: Request, backend: Backend) -> str:
    """Return the mode for the gateway's tools. If the backend parses options, read it from the model's name."""
    if not backend.reads_options:
        return request.mode or DEFAULT_MODE
    mode = parse_qs(request.model.partition("?")[2]).get("mode", [DEFAULT_MODE])[-1]
    return _MODE_OF_TOOLS.get(mode, DEFAULT_MODE)
