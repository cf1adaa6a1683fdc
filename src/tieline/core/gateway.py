"""The one object frontends call."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple

from msgspec.structs import replace

from tieline.core.history import tidy
from tieline.core.metrics import Metrics
from tieline.core.repair import DEFAULT, RepairName, Repairs
from tieline.core.routing import Route, Router
from tieline.core.thoughts import Thoughts
from tieline.core.turn import Turn
from tieline.core.weigh import estimate
from tieline.model.errors import GatewayError
from tieline.model.events import Batch
from tieline.model.ports import Backend, ModelInfo
from tieline.model.request import Request

log = logging.getLogger("tieline")

LISTING_TIMEOUT = 10.0
LISTING_KEPT = 60.0


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
        clock: Callable[[], float],
        repairs: Mapping[str, frozenset[RepairName]] | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._router = router
        self._clock = clock
        self._repairs = repairs or {}
        self._thoughts = Thoughts()
        self._listing: dict[str, ModelInfo] = {}
        self._listed_at: float | None = None

    async def leg(self, request: Request, *, frontend: str) -> AsyncGenerator[Batch, None]:
        """The batches of one leg. Nothing is raised: whatever goes wrong is a Failed."""
        turn = Turn(request, frontend=frontend, metrics=self.metrics, thoughts=self._thoughts, clock=self._clock)
        try:
            route = self._router.find(request.model)
            turn.backend = route.backend.name
            run = await route.backend.start(self._prepared(request, route, turn))
            try:
                async with aclosing(run.leg()) as batches:
                    async for batch in batches:
                        yield turn.seen(batch)
            finally:
                await run.aclose()
        except GatewayError as error:
            yield turn.seen((error.failed(),))
        except Exception:
            # A bug of ours: the client gets an error it can read, the log the traceback.
            log.exception("a leg of %s broke", request.model)
            bug = GatewayError("internal", "Something went wrong inside the gateway; its log says what.")
            yield turn.seen((bug.failed(),))
        finally:
            turn.close()

    async def models(self) -> Mapping[str, ModelInfo]:
        """All models by full name; a backend that cannot be asked is left out and logged."""
        if self._listed_at is None or self._clock() - self._listed_at > LISTING_KEPT:
            backends = list(self._router.backends.values())
            lists = await asyncio.gather(*(_listed(backend) for backend in backends))
            self._listing = {
                f"{backend.name}/{info.id}": info
                for backend, infos in zip(backends, lists, strict=True)
                for info in infos
            }
            self._router.know(self._listing)
            self._listed_at = self._clock()
        return self._listing

    def resolve(self, name: str) -> str:
        """The full name behind any name a client may use; raises GatewayError if there is none."""
        route = self._router.find(name)
        return f"{route.backend.name}/{route.model}"

    async def count(self, request: Request) -> Count:
        """The tokens of a prompt: asked of the upstream where it can tell, else estimated."""
        route = self._router.find(request.model)
        messages, _ = tidy(request.messages)
        tokens = await route.backend.count(replace(request, model=route.model, messages=messages))
        return Count(estimate(request), True) if tokens is None else Count(tokens, False)

    def _prepared(self, request: Request, route: Route, turn: Turn) -> Request:
        """The request as the backend is to have it."""
        messages, notes = tidy(request.messages)
        for note in notes:
            turn.note(note)
        enabled = self._repairs.get(route.backend.name, DEFAULT)
        if enabled and request.tools:
            turn.repairs = Repairs(request.tools, enabled, messages)
        messages = self._thoughts.restore(route.backend.name, messages)
        return replace(request, model=route.model, messages=messages)


async def _listed(backend: Backend) -> list[ModelInfo]:
    try:
        async with asyncio.timeout(LISTING_TIMEOUT):
            return list(await backend.models())
    except GatewayError as error:
        log.warning("the models of %s cannot be listed: %s", backend.name, error.message)
    except TimeoutError:
        log.warning("the models of %s cannot be listed: no answer in %.0f s", backend.name, LISTING_TIMEOUT)
    return []
