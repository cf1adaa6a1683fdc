"""Objects that are created on first use, and backends whose models can be listed before the backend is created."""

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
    """Holds an object that is created by the first call to `now` or `get`."""

    def __init__(self, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._code = make if isinstance(make, LazyImport) else None
        self._make: Callable[[], T] = partial(make, *args, **kwargs)
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """The object, or None if it has not been created yet."""
        return self._made

    def now(self) -> T:
        """Return the object. The first call creates it."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def get(self) -> T:
        """Return the object. The first call imports its module in a thread, because that is slow, and creates it."""
        if self._made is None and self._code is not None:
            await asyncio.to_thread(self._code.load)
        return self.now()


class LazyBackend:
    """Stands in for a backend that is created on first use. If `models` is given, listing models does not create it."""

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
