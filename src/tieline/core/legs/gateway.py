"""The one object frontends call."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from msgspec.structs import replace

from tieline.core.emulation.forced_output import ForcedOutputRun, forces_output
from tieline.core.emulation.limits import Limits
from tieline.core.history.thinking import Thoughts
from tieline.core.history.tidy import tidy
from tieline.core.history.token_estimate import estimate
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.activity_text import ActivityRenderer
from tieline.core.legs.background import is_background
from tieline.core.legs.forwarding import Forwarding, Passage
from tieline.core.legs.leg import INTERNAL, Asker, Ledger, LedgerEntry, OpenRun, WatchedLeg
from tieline.core.legs.parking import CAPACITY, DEADLINE, ParkedRuns
from tieline.core.legs.resume import decide
from tieline.core.legs.routing import ModelRoute, Router
from tieline.core.legs.turn import TooledRun, offering
from tieline.core.repair.repairs import DEFAULT, RepairName, Repairs, can_repair
from tieline.core.watch.bus import MAX_MODEL, Bus
from tieline.core.watch.metrics import Metrics
from tieline.core.watch.secrets import Secrets
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.model.events import Note
from tieline.model.ports import Backend, Host, ModelInfo, Run, Toolbox
from tieline.model.request import Request
from tieline.tasks import Tasks, step_aside

log = logging.getLogger("tieline")

LISTING_TIMEOUT = 10.0
LISTING_KEPT = 60.0
LARGE = 256 * 1024
"""Bytes of a request after which other requests get a turn between two stages."""
DEFAULT_MODE = "agent"

_ALONG_WITH = {"chat": "chat", "ask": "chat", "plan": "plan"}


class Count(NamedTuple):
    """How many tokens a prompt has, and whether that was only estimated."""

    tokens: int
    estimated: bool


class _Prepared(NamedTuple):
    """A request ready to start: where it goes, and what has to be done with its answer."""

    backend: Backend
    request: Request
    """The request as the backend gets it."""
    limits: Limits | None
    repairs: Repairs | None


class Gateway:
    """Takes a request to its backend and gives the events back.

    A request passes through these stages, and never back: `open` prepares it (route, tidy history, restored thinking),
    resumes or starts its run, and returns the leg; the leg reads events from the run and passes them on.
    """

    def __init__(
        self,
        router: Router,
        *,
        tasks: Tasks,
        inbox: Inbox,
        toolbox: Toolbox | None = None,
        clock: Callable[[], float],
        park_for: float = DEADLINE,
        park_at_most: int = CAPACITY,
        repairs: Mapping[str, frozenset[RepairName]] | None = None,
        secrets: Secrets | None = None,
        bus: Bus | None = None,
        conversations: BoundedCache[tuple[Any, ...], Any] | None = None,
    ) -> None:
        self.conversations = BoundedCache(0) if conversations is None else conversations
        """The conversation cache that parsers and builders of all dialects share."""
        self.metrics = Metrics(self.conversations)
        self.bus = bus or Bus(clock=clock, secrets=secrets)
        self.inbox = inbox
        self._toolbox = toolbox
        self._router = router
        self._clock = clock
        self._repairs = repairs or {}
        self._secrets = secrets or Secrets()
        self._thoughts = Thoughts()
        self._lot = ParkedRuns(tasks, self.metrics, deadline=park_for, capacity=park_at_most)
        self._ledger = Ledger(self.metrics, self._thoughts, self._secrets, self._lot, clock, self.bus)
        self._listing: dict[str, ModelInfo] = {}
        self._listed_at: float | None = None
        self._listing_lock = asyncio.Lock()

    async def open(self, request: Request, asker: Asker) -> WatchedLeg:
        """Start the leg of a request, or resume a parked run with it. The caller must close the leg.

        Nothing is raised for a request that cannot be started: its leg consists of the failure.
        """
        if not request.model:
            with contextlib.suppress(GatewayError):  # routing raises it again
                request = replace(request, model=self._router.default_name())
        entry = LedgerEntry(request, asker, self._ledger)
        try:
            prepared = self._prepare(request, entry, await self._route(request))
            if asker.size > LARGE:
                await step_aside()
            return WatchedLeg(entry, await self._open_run(prepared, entry))
        except GatewayError as error:
            return WatchedLeg(entry, None, error)
        except Exception:
            # A bug: the client gets an error it can read, the log gets the traceback.
            log.exception("a request for %s could not be started", request.model[:MAX_MODEL])
            return WatchedLeg(entry, None, INTERNAL)
        except BaseException:
            entry.settle(None, None, ())
            raise

    def forward(self, passage: Passage) -> Forwarding:
        """Pass a request through to its upstream; the caller must close it."""
        return Forwarding(passage, self._ledger, self._find)

    async def _find(self, name: str) -> ModelRoute:
        """The route for a name, also if it is known only once the backends have listed their models."""
        name = name or self._router.default_name()
        try:
            return self._router.find(name)
        except GatewayError:
            if self._listed_at is not None:
                raise
        await self.models()
        return self._router.find(name)

    async def models(self) -> Mapping[str, ModelInfo]:
        """All models by full name; a backend that cannot be asked is left out and logged."""
        if not self._is_listed:
            async with self._listing_lock:
                if not self._is_listed:
                    await self._list()
        return self._listing

    async def names(self) -> Mapping[str, ModelInfo]:
        """All models by full name, and again by each alias that is an exact name."""
        models = await self.models()
        return {**models, **self._infos(self._router.aliases)}

    async def samples(self) -> Mapping[str, ModelInfo]:
        """A name for each alias that is a pattern and leads to one model."""
        await self.models()
        return self._infos(self._router.alias_examples())

    async def model(self, name: str) -> ModelInfo:
        """What is known of a model by any name a request could use; raises GatewayError if there is none."""
        await self.models()
        return self._info(name)

    def _infos(self, names: Iterable[str]) -> dict[str, ModelInfo]:
        """What is known by these names; an alias may lead to a backend that is not there at present."""
        found: dict[str, ModelInfo] = {}
        for name in names:
            with contextlib.suppress(GatewayError):
                found[name] = self._info(name)
        return found

    def _info(self, name: str) -> ModelInfo:
        route = self._router.find(name)
        full = f"{route.backend.name}/{route.model}"
        return self._listing.get(full) or ModelInfo(id=route.model, owner=route.backend.name)

    @property
    def _is_listed(self) -> bool:
        return self._listed_at is not None and self._clock() - self._listed_at <= LISTING_KEPT

    async def _list(self) -> None:
        backends = list(self._router.backends.values())
        lists = await asyncio.gather(*(self._listed(backend) for backend in backends))
        found = [(backend.name, infos) for backend, infos in zip(backends, lists, strict=True)]
        self._listing = {
            f"{name}/{info.id}": replace(info, owner=name) for name, infos in found for info in infos or ()
        }
        self._router.add_models(self._listing, [name for name, infos in found if infos is None])
        self._listed_at = self._clock()

    def known(self, name: str) -> ModelInfo | None:
        """What is known of a model by its full name, without asking anybody."""
        return self._listing.get(name)

    def relist(self) -> None:
        """There are other backends than before: ask for the models again when somebody wants to know."""
        self._listed_at = None
        self._router.clear_cache()

    def resolve(self, name: str) -> str:
        """The full name behind any name a client may use; raises GatewayError if there is none."""
        route = self._router.find(name)
        return f"{route.backend.name}/{route.model}"

    def is_agent(self, name: str) -> bool:
        """Whether a model uses tools of its own."""
        return self._router.find(name).backend.is_agent

    async def count(self, request: Request) -> Count:
        """The tokens of a prompt: asked of the upstream where it can tell, else estimated."""
        if not request.model:
            request = replace(request, model=self._router.default_name())
        route, _ = await self._route(request)
        messages, _ = tidy(request.messages)
        try:
            tokens = await route.backend.count(replace(request, model=route.model, messages=messages))
        except GatewayError as error:
            error.message = self._secrets.hide(error.message)
            raise
        return Count(estimate(request), True) if tokens is None else Count(tokens, False)

    async def aclose(self) -> None:
        """Close the runs that wait."""
        await self._lot.aclose()

    # ── From a request to a run ──────────────────────────────────────────────────────────────────

    async def _route(self, request: Request) -> tuple[ModelRoute, str | None]:
        """Return where a request goes and in which mode; a name may be known only after the models were listed."""
        try:
            return self._routed(request)
        except GatewayError:
            if self._listed_at is not None:
                raise
        await self.models()
        return self._routed(request)

    def _routed(self, request: Request) -> tuple[ModelRoute, str | None]:
        """Look a model up. `?mode=` is ours unless the backend reads options itself."""
        if self._toolbox is not None and "?mode=" in request.model:
            name, _, mode = request.model.partition("?mode=")
            route = self._router.find(name)
            if not route.backend.reads_options:
                return route, mode
        return self._router.find(request.model or self._router.default_name()), request.mode

    def _prepare(self, request: Request, entry: LedgerEntry, routed: tuple[ModelRoute, str | None]) -> _Prepared:
        """Decide what the backend gets, and what has to be done with its answer."""
        (backend, model), mode = routed
        entry.routed(backend.name, model)
        messages, notes = tidy(request.messages)
        for note in notes:
            entry.note(note)
        enabled = self._repairs.get(backend.name, DEFAULT)
        repairs = Repairs(request.tools, enabled, messages) if can_repair(request.tools, enabled) else None
        has_limits = request.sampling.max_tokens is not None or bool(request.sampling.stop)
        limits = Limits(request) if has_limits and not backend.obeys_limits else None
        if mode and backend.reads_options and "?" not in model:
            model = f"{model}?mode={mode}"
        messages = self._thoughts.restore(backend.name, messages)
        return _Prepared(backend, replace(request, model=model, messages=messages, mode=mode), limits, repairs)

    async def _open_run(self, prepared: _Prepared, entry: LedgerEntry) -> OpenRun:
        """Resume the parked run that waits for this request, or start a new one."""
        if self._lot.waiting and (resumed := await self._resume(prepared, entry)) is not None:
            return resumed
        backend, request, limits, repairs = prepared
        asker, host = entry.asker, Host(self.inbox.human(entry.origin))
        if backend.is_agent:
            run = await self._start(backend, request, host)
            return OpenRun(run, limits, repairs, ActivityRenderer(asker.activity))
        if self._toolbox is not None and asker.tools and not request.tools and not _withheld(entry):
            tools = self._toolbox.open(_tools_mode(request, backend))
            run = TooledRun(await self._start(backend, offering(request, tools), host), tools, host, request)
            return OpenRun(run, limits, repairs, ActivityRenderer(asker.activity), run.rounds)
        return OpenRun(await self._start(backend, request, host), limits, repairs)

    def _start(self, backend: Backend, request: Request, host: Host) -> Awaitable[Run]:
        """Start a run. Its answers are checked if the upstream cannot be forced to give what is demanded."""
        if backend.obeys_limits or not forces_output(request):
            return backend.start(request, host)
        return ForcedOutputRun.open(lambda asked: backend.start(asked, host), request)

    async def _resume(self, prepared: _Prepared, entry: LedgerEntry) -> OpenRun | None:
        """Resume the parked run whose results this request brings, if there is one."""
        decision = decide(entry.request.messages, entry.backend, entry.model, self._lot.waiting)
        for dropped in decision.close:
            self._lot.close(dropped)
        parked = decision.resume
        if parked is None or not self._lot.claim(parked):
            return None
        self.metrics.resumed += 1
        entry.record.is_resumed = True
        try:
            await parked.run.answer(decision.results, prepared.request, decision.words)
        except BaseException:
            await parked.run.aclose()
            raise
        showing = ActivityRenderer(entry.asker.activity) if parked.is_shown else None
        return OpenRun(parked.run, prepared.limits, prepared.repairs, showing)

    async def _listed(self, backend: Backend) -> list[ModelInfo] | None:
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                return list(await backend.models())
        except GatewayError as error:
            log.warning("the models of %s cannot be listed: %s", backend.name, self._secrets.hide(error.message))
        except TimeoutError:
            log.warning("the models of %s cannot be listed: no answer in %.0f s", backend.name, LISTING_TIMEOUT)
        return None


def _withheld(entry: LedgerEntry) -> bool:
    """Return whether a request gets none of the gateway's tools although its client may have them."""
    if not entry.asker.has_background or not is_background(entry.request):
        return False
    entry.note(
        Note(kind="tools", message="no tools of the gateway: this looks like a request on the client's own behalf")
    )
    return True


def _tools_mode(request: Request, backend: Backend) -> str:
    """The mode of our tools. An upstream with modes of its own reads the wish itself; ours go along with it."""
    if not backend.reads_options:
        return request.mode or DEFAULT_MODE
    wish = parse_qs(request.model.partition("?")[2]).get("mode", [DEFAULT_MODE])[-1]
    return _ALONG_WITH.get(wish, DEFAULT_MODE)
