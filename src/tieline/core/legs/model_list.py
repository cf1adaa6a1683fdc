"""Lists the models of all backends, caches the list for a minute, and finds a model by any name that clients use."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from tieline.core.legs.access import ModelAccess
from tieline.core.legs.model_facts import ModelDescriptions
from tieline.core.legs.routing import ModelRoute, Router
from tieline.core.legs.variants import may_be_variant
from tieline.core.watch.secrets import Secrets
from tieline.model.errors import GatewayError
from tieline.model.ports import Backend, ModelInfo

log = logging.getLogger("tieline")

LIST_TIMEOUT = 10.0
"""Time limit in seconds for listing the models of one backend."""
MAX_AGE = 60.0
"""Seconds for which the list of models is cached."""


class ModelList:
    """A cached list of all models by full name (`<backend>/<model>`). Models can also be found by other names."""

    def __init__(
        self,
        router: Router,
        secrets: Secrets,
        clock: Callable[[], float],
        descriptions: ModelDescriptions | None = None,
    ) -> None:
        self._router = router
        self._descriptions = descriptions or ModelDescriptions()
        self._secrets = secrets
        self._clock = clock
        self._infos: dict[str, ModelInfo] = {}
        self._arrived: dict[str, dict[str, ModelInfo]] = {}
        """The models that have been listed so far by the listing in progress, by backend."""
        self._listed_at: float | None = None
        self._changes = 0
        """How often the backends have changed."""
        self._lock = asyncio.Lock()

    async def all(self) -> Mapping[str, ModelInfo]:
        """Return all models by full name. A backend that cannot list its models is logged and left out."""
        if not self._is_current:
            async with self._lock:
                while not self._is_current:  # the backends may change while their models are listed
                    await self._list()
        return self._infos

    @property
    def latest(self) -> Mapping[str, ModelInfo]:
        """The models known at the moment. Unlike `all`, this does not wait for backends that have not answered yet."""
        arrived, backends = self._arrived, self._router.backends
        before = {
            name: info for name, info in self._infos.items() if info.owner in backends and info.owner not in arrived
        }
        return before | {name: info for infos in arrived.values() for name, info in infos.items()}

    async def with_aliases(self, access: ModelAccess | None = None) -> Mapping[str, ModelInfo]:
        """Return all models by full name, and also by each alias without a `*`.

        If `access` is given, return only the models that it allows.
        """
        models = await self.all()
        return _allowed({**models, **self._by_name(self._router.aliases)}, access)

    async def alias_examples(self, access: ModelAccess | None = None) -> Mapping[str, ModelInfo]:
        """Return a mapping with one entry for each alias pattern that has a single `*` and a fixed target.

        The key is an example of a name that matches the pattern, and the value is the target model.

        If `access` is given, return only the models that it allows.
        """
        await self.all()
        return _allowed(self._by_name(self._router.alias_examples()), access)

    async def find(self, name: str, access: ModelAccess | None = None) -> ModelInfo:
        """Return the model with this name. All names that a request may use are accepted.

        Raise GatewayError if the name is unknown, or if `access` does not allow the model.
        """
        await self.all()
        return self._info(name, access)

    def known(self, full_name: str) -> ModelInfo | None:
        """Return a model by its full name, without asking a backend. Return None if it has not been listed."""
        return self._infos.get(full_name)

    def resolve(self, name: str) -> str:
        """Return the full name of the model that `name` stands for. Raise GatewayError if the name is unknown."""
        return _full_name(self._router.find(name))

    def is_agent(self, name: str) -> bool:
        """Return whether the model with this name is an agent, which uses tools of its own."""
        return self._router.find(name).backend.is_agent

    async def route(self, name: str, access: ModelAccess | None = None) -> ModelRoute:
        """Return the route for a name, or for the default model if the name is empty.

        If the name is unknown or may be a variant of another name, and the models have not been listed since the
        backends last changed, list them first. For `access`, see `Router.find`.
        """
        name = name or self._router.default_name()
        may_change = may_be_variant(name) and name not in self._router.aliases
        if self._listed_at is None and (may_change or not self._router.knows(name)):
            await self.all()
        return self._router.find(name, access)

    def invalidate(self) -> None:
        """Mark the list of models as outdated, and discard the cached routes. Call this when the backends change."""
        self._listed_at = None
        self._changes += 1
        self._router.clear_cache()

    @property
    def _is_current(self) -> bool:
        return self._listed_at is not None and self._clock() - self._listed_at <= MAX_AGE

    async def _list(self) -> None:
        changes = self._changes
        backends = list(self._router.backends.values())
        self._arrived = {}
        lists = await asyncio.gather(*(self._models_of(backend) for backend in backends))
        found = [(backend.name, infos) for backend, infos in zip(backends, lists, strict=True)]
        self._infos = {name: info for _, infos in found for name, info in (infos or {}).items()}
        self._arrived = {}
        self._router.add_models(self._infos, [name for name, infos in found if infos is None])
        self._listed_at = self._clock() if changes == self._changes else None

    async def _models_of(self, backend: Backend) -> dict[str, ModelInfo] | None:
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                listed = await backend.models()
        except GatewayError as error:
            log.warning("could not list the models of %s: %s", backend.name, self._secrets.hide(error.message))
            return None
        except TimeoutError:
            log.warning("could not list the models of %s: no answer within %.0f s", backend.name, LIST_TIMEOUT)
            return None
        described = (replace(info, owner=backend.name) for info in listed)
        names = ((f"{backend.name}/{info.id}", info) for info in described)
        infos = {name: self._descriptions.complete(name, info) for name, info in names}
        self._arrived[backend.name] = infos
        return infos

    def _by_name(self, names: Iterable[str]) -> dict[str, ModelInfo]:
        found: dict[str, ModelInfo] = {}
        for name in names:
            with contextlib.suppress(GatewayError):  # the backend of an alias may not exist at the moment
                found[name] = self._info(name)
        return found

    def _info(self, name: str, access: ModelAccess | None = None) -> ModelInfo:
        route = self._router.find(name, access)
        full_name = _full_name(route)
        info = self._infos.get(full_name)
        if info is None:
            info = self._descriptions.complete(full_name, ModelInfo(id=route.model, owner=route.backend.name))
        return info if name == full_name else self._descriptions.under(name, info)


def _full_name(route: ModelRoute) -> str:
    return f"{route.backend.name}/{route.model}"


def _allowed(models: Mapping[str, ModelInfo], access: ModelAccess | None) -> Mapping[str, ModelInfo]:
    if access is None:
        return models
    return {name: info for name, info in models.items() if access.allows(name, info.owner, info.id)}
