"""The list of models when backends change while it is made."""

import asyncio
from collections.abc import Sequence

from tieline.core.legs.model_list import ModelList
from tieline.core.legs.routing import Router
from tieline.core.watch.secrets import Secrets
from tieline.model.ports import Backend, Host, ModelInfo, Run
from tieline.model.request import Request


class Slow:
    """A backend whose list of models arrives when it is released."""

    is_agent = False
    reads_options = False
    obeys_limits = True

    def __init__(self, name: str, *, is_released: bool = True) -> None:
        self.name = name
        self.asked = asyncio.Event()
        self.released = asyncio.Event()
        if is_released:
            self.released.set()

    async def models(self) -> Sequence[ModelInfo]:
        self.asked.set()
        await self.released.wait()
        return [ModelInfo(id="m")]

    async def start(self, request: Request, host: Host) -> Run:
        raise AssertionError("nothing is started here")

    async def count(self, request: Request) -> int | None:
        return None

    async def aclose(self) -> None:
        return


async def test_a_list_that_was_begun_before_a_change_is_made_again() -> None:
    old = Slow("old", is_released=False)
    backends: dict[str, Backend] = {"old": old}
    router = Router(backends)
    listed = ModelList(router, Secrets(), lambda: 0.0)
    listing = asyncio.create_task(listed.all())
    await old.asked.wait()
    del backends["old"]
    backends["new"] = Slow("new")
    router.update(aliases={}, default=None)
    listed.invalidate()
    old.released.set()
    async with asyncio.timeout(10):
        assert set(await listing) == {"new/m"}


async def test_a_backend_that_does_not_answer_does_not_hide_the_others() -> None:
    slow = Slow("slow", is_released=False)
    backends: dict[str, Backend] = {"slow": slow, "quick": Slow("quick")}
    listed = ModelList(Router(backends), Secrets(), lambda: 0.0)
    assert listed.latest == {}
    listing = asyncio.create_task(listed.all())
    await slow.asked.wait()
    await asyncio.sleep(0)
    assert set(listed.latest) == {"quick/m"}
    slow.released.set()
    assert set(await listing) == {"slow/m", "quick/m"}
    assert set(listed.latest) == {"slow/m", "quick/m"}
    slow.released.clear()
    slow.asked.clear()
    listed.invalidate()
    again = asyncio.create_task(listed.all())
    await slow.asked.wait()
    assert set(listed.latest) == {"slow/m", "quick/m"}
    slow.released.set()
    await again
