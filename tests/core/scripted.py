"""A backend for tests: it says what is written down beforehand, and waits where it is told to."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from tieline.model.content import Text
from tieline.model.events import Batch, Event, Finished, PartDelta, PartEnd, PartStart, Started, StopReason, Usage
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request

PATIENCE = 60.0
END = Finished(reason=StopReason.END_TURN)


def words(text: str, index: int = 0) -> list[Event]:
    return [
        PartStart(index=index, part=Text()),
        PartDelta(index=index, text=text),
        PartEnd(index=index, part=Text(text=text)),
    ]


class Script:
    """A backend whose legs are written down beforehand; a pause in one waits until it is told to go on."""

    name = "test"
    reads_options = True
    obeys_limits = True
    is_agent = True
    pending: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.legs: list[Sequence[Batch | asyncio.Event]] = []
        self.reached = asyncio.Event()

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id="m", context=1000), ModelInfo(id="n")]

    async def start(self, request: Request, host: Host) -> "Script":
        self.requests.append(request)
        return self

    async def count(self, request: Request) -> int | None:
        return None

    async def leg(self) -> AsyncGenerator[Batch, None]:
        number = len(self.requests)
        usual = [[Started(id=f"leg{number}", model="m"), *words(f"answer {number}"), Usage(input=10, output=2), END]]
        for batch in self.legs.pop(0) if self.legs else usual:
            if isinstance(batch, asyncio.Event):
                self.reached.set()
                await batch.wait()
            else:
                yield batch

    async def answer(self, results: object, request: Request | None = None, words: str = "") -> None:
        """The next leg is written down already."""

    async def aclose(self) -> None:
        """Nothing to free."""
