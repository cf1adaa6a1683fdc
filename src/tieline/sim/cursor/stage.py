"""Plays the steps of a run on an HTTP exchange: frames, heartbeats, waits and endings of every kind."""

import asyncio
from collections.abc import Iterable

from tieline.sim.cursor.dialects import Dialect, squeezed
from tieline.sim.cursor.exchange import Exchange
from tieline.sim.cursor.line import Line
from tieline.sim.cursor.refusals import Refusal, RunRefused
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Style, Wait
from tieline.sim.cursor.turn import HEARTBEAT
from tieline.wire.framing.connect import frame

_GONE = Refusal(code="canceled", message="the client has closed its side and can answer no more")


class Stage:
    """One run on one exchange."""

    def __init__(self, exchange: Exchange, line: Line, dialect: Dialect) -> None:
        self.is_deaf = False
        """Whether the client has closed its side, so that nothing can come from it any more."""
        self._exchange = exchange
        self._line = line
        self._dialect = dialect
        self._settings = line.run.settings
        self._style: Style = self._settings.style
        self._frames: list[bytes] = []
        self._is_begun = False
        self._next_beat = 0.0

    async def play(self, steps: Iterable[Step]) -> str:
        """Every step up to an ending; how it ended. What has no ending just stops."""
        try:
            return await self._played(steps)
        except RunRefused as error:
            await self._end(error.refusal)
            return f"refused: {error.refusal.code}"

    async def _played(self, steps: Iterable[Step]) -> str:
        for step in steps:
            if type(step) is Send:
                self._frames.append(self._framed(step.message))
                if len(self._frames) >= self._style.batch:
                    await self._flush()
                    # Others want their turn too.
                    await asyncio.sleep(0)
                continue
            if type(step) is End:
                await self._end(step.refusal)
                return f"refused: {step.refusal.code}" if step.refusal else "ended"
            await self._flush()
            if ending := await self._act(step):
                return ending
        await self._flush()
        return await self._leave("eof")

    async def _act(self, step: Step) -> str:
        """Play one step; the name of the ending if it is one."""
        match step:
            case Wait():
                await self._wait(step)
            case Style():
                self._style = step
            case Raw():
                await self._write(step.data)
            case Framed():
                await self._write(frame(step.payload, step.flags))
            case GoAway():
                self._exchange.goaway(step.code)
            case Status():
                self._is_begun = True
                await self._exchange.answer(step.status, step.body, step.headers)
                return f"status {step.status}"
            case Leave():
                return await self._leave(step.how)
            case Send() | End():
                # Played above, where they go out together with what was said before.
                pass
        return ""

    # Waiting

    async def _wait(self, wait: Wait) -> None:
        loop = asyncio.get_running_loop()
        seconds = self._settings.patience if wait.seconds is None else wait.seconds
        deadline = loop.time() + seconds
        self._next_beat = loop.time() + self._settings.heartbeat
        while not wait.until():
            self._check_line(wait)
            self._line.heard.clear()
            until = min(deadline, self._next_beat) if wait.beats else deadline
            try:
                async with asyncio.timeout_at(until):
                    await self._line.heard.wait()
            except TimeoutError:
                if loop.time() >= deadline:
                    return
                await self._beat(loop.time())

    async def _beat(self, now: float) -> None:
        if now >= self._next_beat:
            self._next_beat = now + self._settings.heartbeat
            await self._write(self._framed(HEARTBEAT.message))

    def _check_line(self, wait: Wait) -> None:
        if self._line.trouble is not None:
            raise self._line.trouble
        if self.is_deaf and wait.seconds is None:
            raise RunRefused(_GONE)

    # Writing

    def _framed(self, message: bytes) -> bytes:
        return squeezed(message) if self._style.gzip else frame(message)

    async def _flush(self) -> None:
        if self._frames:
            data = b"".join(self._frames)
            self._frames.clear()
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        if not self._is_begun:
            await self._begin()
        size = self._style.piece or len(data)
        for at in range(0, len(data), size or 1):
            await self._exchange.write(data[at : at + size])
            if self._style.piece:
                # So that the pieces reach the client one by one, as far as that can be made sure.
                await asyncio.sleep(0)

    async def _begin(self) -> None:
        self._is_begun = True
        headers = [("content-type", self._dialect.content_type)]
        if self._style.gzip and self._style.announce:
            name = "grpc-encoding" if self._dialect.framing == "grpc-web" else "connect-content-encoding"
            headers.append((name, "gzip"))
        await self._exchange.start(200, headers)

    # Ending

    async def _end(self, refusal: Refusal | None) -> None:
        self._frames.append(self._dialect.end(refusal))
        if self._style.piece:
            await self._flush()
        if not self._is_begun:
            await self._begin()
        await self._exchange.end(b"".join(self._frames))

    async def _leave(self, how: str) -> str:
        match how:
            case "reset":
                self._exchange.reset()
            case "cut":
                self._exchange.cut()
            case _:
                if not self._is_begun:
                    await self._begin()
                await self._exchange.end()
        return how
