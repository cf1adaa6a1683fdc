"""The one object frontends call."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple
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
from tieline.core.legs.leg import Asker, Ledger, WatchedLeg
from tieline.core.legs.parking import CAPACITY, DEADLINE, ParkedRuns
from tieline.core.legs.resume import decide
from tieline.core.legs.routing import ModelRoute, Router
from tieline.core.legs.turn import TooledRun, offering
from tieline.core.repair.repairs import DEFAULT, RepairName, Repairs, can_repair
from tieline.core.watch.bus import Bus
from tieline.core.watch.metrics import Metrics
from tieline.core.watch.secrets import Secrets
from tieline.model.errors import GatewayError
from tieline.model.events import Note
from tieline.model.ports import Backend, Host, ModelInfo, Run, Toolbox
from tieline.model.request import Request
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

LISTING_TIMEOUT = 10.0
LISTING_KEPT = 60.0
DEFAULT_MODE = "agent"

_ALONG_WITH = {"chat": "chat", "ask": "chat", "plan": "plan"}


class Count(NamedTuple):
    """How many tokens a prompt has, and whether that was only estimated."""

    tokens: int
    estimated: bool


class Gateway:
    """Takes a request to its backend and gives the events back."""

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
    ) -> None:
        self.metrics = Metrics()
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

    def leg(self, request: Request, asker: Asker) -> WatchedLeg:
        """The batches of one leg; whoever takes them must close it."""
        if not request.model:
            request = replace(request, model=self._router.default_name())
        ledger = self._ledger
        ledger.metrics.open_legs += 1
        began = ledger.clock()
        record = ledger.bus.begin(request, asker.frontend, asker.client)
        return WatchedLeg(request, asker, ledger, self._start, began, record)

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
        route, _ = self._routed(request)
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

    def _start(self, request: Request, leg: WatchedLeg) -> Awaitable[Run]:
        try:
            route, mode = self._routed(request)
        except GatewayError:
            if self._listed_at is not None:
                raise
            return self._start_listed(request, leg)
        return self._start_at(route, mode, request, leg)

    async def _start_listed(self, request: Request, leg: WatchedLeg) -> Run:
        """Start a request whose model is unknown as long as no backend was asked for its models."""
        await self.models()
        route, mode = self._routed(request)
        return await self._start_at(route, mode, request, leg)

    def _start_at(self, route: ModelRoute, mode: str | None, request: Request, leg: WatchedLeg) -> Awaitable[Run]:
        backend, leg.model = route
        leg.backend = leg.record.backend = backend.name
        if self.bus.watchers:
            self.bus.changed(leg.record)
        prepared = self._prepared(request, route, mode, leg)
        if self._lot.waiting:
            return self._continued(backend, request, prepared, leg)
        return self._begun(backend, request, prepared, leg)

    async def _continued(self, backend: Backend, request: Request, prepared: Request, leg: WatchedLeg) -> Run:
        """The parked run that waits for this request, or a new one."""
        run = await self._resumed(request, prepared, leg)
        return run if run is not None else await self._begun(backend, request, prepared, leg)

    def _begun(self, backend: Backend, request: Request, prepared: Request, leg: WatchedLeg) -> Awaitable[Run]:
        """Start a run; with the gateway's tools if the client is to have them and brings none of its own."""
        host = Host(self.inbox.human(leg.origin))
        if backend.is_agent:
            leg.showing = ActivityRenderer(leg.asker.activity)
        elif self._toolbox is not None and leg.asker.tools and not request.tools and not _withheld(request, leg):
            return self._tooled(self._toolbox, backend, prepared, host, leg)
        return backend.start(prepared, host) if backend.obeys_limits else self._opened(backend, prepared, host)

    def _opened(self, backend: Backend, request: Request, host: Host) -> Awaitable[Run]:
        """A run of the backend; its answers are checked if the upstream can only be asked for what is demanded."""
        if backend.obeys_limits or not forces_output(request):
            return backend.start(request, host)
        return ForcedOutputRun.open(lambda asked: backend.start(asked, host), request)

    async def _tooled(
        self, toolbox: Toolbox, backend: Backend, prepared: Request, host: Host, leg: WatchedLeg
    ) -> TooledRun:
        tools = toolbox.open(_tools_mode(prepared, backend))
        leg.showing = ActivityRenderer(leg.asker.activity)
        run = TooledRun(await self._opened(backend, offering(prepared, tools), host), tools, host, prepared)
        leg.rounds = run.rounds
        return run

    async def _resumed(self, request: Request, prepared: Request, leg: WatchedLeg) -> Run | None:
        """The parked run that this request goes on with, if there is one."""
        decision = decide(request.messages, leg.backend, leg.model, self._lot.waiting)
        for dropped in decision.close:
            self._lot.close(dropped)
        parked = decision.resume
        if parked is None or not self._lot.claim(parked):
            return None
        self.metrics.resumed += 1
        leg.record.is_resumed = True
        try:
            await parked.run.answer(decision.results, prepared, decision.words)
        except BaseException:
            await parked.run.aclose()
            raise
        if parked.is_shown:
            leg.showing = ActivityRenderer(leg.asker.activity)
        return parked.run

    def _routed(self, request: Request) -> tuple[ModelRoute, str | None]:
        """Where a request goes, and in which mode; `?mode=` is ours unless the backend reads options itself."""
        if self._toolbox is not None and "?mode=" in request.model:
            name, _, mode = request.model.partition("?mode=")
            route = self._router.find(name)
            if not route.backend.reads_options:
                return route, mode
        return self._router.find(request.model), request.mode

    def _prepared(self, request: Request, route: ModelRoute, mode: str | None, leg: WatchedLeg) -> Request:
        """The request as the backend is to have it."""
        messages, notes = tidy(request.messages)
        for note in notes:
            leg.note(note)
        if request.tools:
            enabled = self._repairs.get(leg.backend, DEFAULT)
            if can_repair(request.tools, enabled):
                leg.repairs = Repairs(request.tools, enabled, messages)
        if not route.backend.obeys_limits and (request.sampling.max_tokens is not None or request.sampling.stop):
            leg.limits = Limits(request)
        messages = self._thoughts.restore(leg.backend, messages)
        model = route.model
        if mode and route.backend.reads_options and "?" not in model:
            model = f"{model}?mode={mode}"
        return replace(request, model=model, messages=messages, mode=mode)

    async def _listed(self, backend: Backend) -> list[ModelInfo] | None:
        try:
            async with asyncio.timeout(LISTING_TIMEOUT):
                return list(await backend.models())
        except GatewayError as error:
            log.warning("the models of %s cannot be listed: %s", backend.name, self._secrets.hide(error.message))
        except TimeoutError:
            log.warning("the models of %s cannot be listed: no answer in %.0f s", backend.name, LISTING_TIMEOUT)
        return None


def _withheld(request: Request, leg: WatchedLeg) -> bool:
    """Whether a request must do without the gateway's tools although its client may have them."""
    if not leg.asker.has_background or not is_background(request):
        return False
    leg.note(Note(kind="tools", message="no tools of the gateway: the client seems to ask this for itself"))
    return True


def _tools_mode(request: Request, backend: Backend) -> str:
    """The mode of our tools. An upstream with modes of its own reads the wish itself; ours go along with it."""
    if not backend.reads_options:
        return request.mode or DEFAULT_MODE
    wish = parse_qs(request.model.partition("?")[2]).get("mode", [DEFAULT_MODE])[-1]
    return _ALONG_WITH.get(wish, DEFAULT_MODE)
