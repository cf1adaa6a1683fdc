"""Objects that are made when they are first needed, and backends that are known before they are made."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from tieline.app.lazy import Lazily
from tieline.model.ports import Backend, Host, ModelInfo, Run
from tieline.model.request import Request

P = ParamSpec("P")
T = TypeVar("T")


class Later(Generic[T]):
    """One object, made at the first call for it."""

    def __init__(self, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._code = make if isinstance(make, Lazily) else None
        self._make: Callable[[], T] = partial(make, *args, **kwargs)
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """The object, if there is one already."""
        return self._made

    def now(self) -> T:
        """The object, at once."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def get(self) -> T:
        """The object. Its code is loaded in a thread: others are served meanwhile."""
        if self._made is None and self._code is not None:
            await asyncio.to_thread(self._code.load)
        return self.now()


class LateBackend:
    """A backend that is made with its first run; `models` tells what it has, where that is known without it."""

    def __init__(
        self,
        name: str,
        backend: Later[Backend],
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
