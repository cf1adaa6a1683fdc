"""Objects that are created when they are first used, and backends that can be listed before they are created."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from tieline.app.lazy import LazyImport
from tieline.model.ports import Backend, Host, ModelInfo, Run
from tieline.model.request import Request

P = ParamSpec("P")
T = TypeVar("T")


class LazyObject(Generic[T]):
    """An object that is created at the first call of `now` or `get`."""

    def __init__(self, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._code = make if isinstance(make, LazyImport) else None
        self._make: Callable[[], T] = partial(make, *args, **kwargs)
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """The object, if it was created already."""
        return self._made

    def now(self) -> T:
        """Return the object, and create it if necessary."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def get(self) -> T:
        """Return the object, and create it if necessary. Its module is imported in a thread, which takes a while."""
        if self._made is None and self._code is not None:
            await asyncio.to_thread(self._code.load)
        return self.now()


class LazyBackend:
    """A backend that is created with its first run. `models` lists its models without creating it, if possible."""

    def __init__(
        self,
        name: str,
        backend: LazyObject[Backend],
        *,
        is_agent: bool = False,
        reads_options: bool = False,
        obeys_limits: bool = True,
        models: Callable[[], Sequence[ModelInfo]] | None = None,
    ) -> None:
        self.name = name
        self.is_agent = is_agent
        self.reads_options = reads_options
        self.obeys_limits = obeys_limits
        self.backend = backend
        self._models = models

    async def models(self) -> Sequence[ModelInfo]:
        if self._models is not None:
            return self._models()
        return await (await self.backend.get()).models()

    async def start(self, request: Request, host: Host) -> Run:
        return await (await self.backend.get()).start(request, host)

    async def count(self, request: Request) -> int | None:
        return await (await self.backend.get()).count(request)

    async def aclose(self) -> None:
        if self.backend.made is not None:
            await self.backend.made.aclose()
