"""The models of all backends: listed on demand, kept for a minute, and looked up by any name a client may use."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from tieline.core.legs.routing import ModelRoute, Router
from tieline.core.watch.secrets import Secrets
from tieline.model.errors import GatewayError
from tieline.model.ports import Backend, ModelInfo

log = logging.getLogger("tieline")

LIST_TIMEOUT = 10.0
"""Seconds that one backend has to list its models."""
MAX_AGE = 60.0
"""Seconds after which the models are listed again."""


class ModelList:
    """The models by full name (`<backend>/<model>`)."""

    def __init__(self, router: Router, secrets: Secrets, clock: Callable[[], float]) -> None:
        self._router = router
        self._secrets = secrets
        self._clock = clock
        self._infos: dict[str, ModelInfo] = {}
        self._listed_at: float | None = None
        self._lock = asyncio.Lock()

    async def all(self) -> Mapping[str, ModelInfo]:
        """Return all models by full name. A backend that cannot list its models is logged and left out."""
        if not self._is_current:
            async with self._lock:
                if not self._is_current:
                    await self._list()
        return self._infos

    async def with_aliases(self) -> Mapping[str, ModelInfo]:
        """Return all models by full name, and also by each alias without a `*`."""
        models = await self.all()
        return {**models, **self._by_name(self._router.aliases)}

    async def alias_examples(self) -> Mapping[str, ModelInfo]:
        """Return models by an example of each alias pattern that leads to a single model."""
        await self.all()
        return self._by_name(self._router.alias_examples())

    async def find(self, name: str) -> ModelInfo:
        """Return the model with any name that a request may use. Raise GatewayError if there is none."""
        await self.all()
        return self._info(name)

    def known(self, full_name: str) -> ModelInfo | None:
        """Return a model by its full name if it has been listed, without a request to a backend."""
        return self._infos.get(full_name)

    def resolve(self, name: str) -> str:
        """Return the full name behind any name. Raise GatewayError if there is none."""
        return _full_name(self._router.find(name))

    def is_agent(self, name: str) -> bool:
        """Return whether a model uses tools of its own."""
        return self._router.find(name).backend.is_agent

    async def route(self, name: str) -> ModelRoute:
        """Return the route for a name, or for the default model if it is empty.

        If the name is unknown and the models were never listed, list them first.
        """
        name = name or self._router.default_name()
        try:
            return self._router.find(name)
        except GatewayError:
            if self._listed_at is not None:
                raise
        await self.all()
        return self._router.find(name)

    def invalidate(self) -> None:
        """List the models again when they are needed next; call it when the backends change."""
        self._listed_at = None
        self._router.clear_cache()

    @property
    def _is_current(self) -> bool:
        return self._listed_at is not None and self._clock() - self._listed_at <= MAX_AGE

    async def _list(self) -> None:
        backends = list(self._router.backends.values())
        lists = await asyncio.gather(*(self._models_of(backend) for backend in backends))
        found = [(backend.name, infos) for backend, infos in zip(backends, lists, strict=True)]
        self._infos = {f"{name}/{info.id}": replace(info, owner=name) for name, infos in found for info in infos or ()}
        self._router.add_models(self._infos, [name for name, infos in found if infos is None])
        self._listed_at = self._clock()

    async def _models_of(self, backend: Backend) -> list[ModelInfo] | None:
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                return list(await backend.models())
        except GatewayError as error:
            log.warning("the models of %s cannot be listed: %s", backend.name, self._secrets.hide(error.message))
        except TimeoutError:
            log.warning("the models of %s cannot be listed: no answer in %.0f s", backend.name, LIST_TIMEOUT)
        return None

    def _by_name(self, names: Iterable[str]) -> dict[str, ModelInfo]:
        found: dict[str, ModelInfo] = {}
        for name in names:
            with contextlib.suppress(GatewayError):  # an alias may lead to a backend that is not there at present
                found[name] = self._info(name)
        return found

    def _info(self, name: str) -> ModelInfo:
        route = self._router.find(name)
        return self._infos.get(_full_name(route)) or ModelInfo(id=route.model, owner=route.backend.name)


def _full_name(route: ModelRoute) -> str:
    return f"{route.backend.name}/{route.model}"
