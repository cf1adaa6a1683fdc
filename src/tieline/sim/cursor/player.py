"""Performs the steps of a run on an HTTP exchange: frames, heartbeats, waits and endings."""

import asyncio
from collections.abc import Iterable

from tieline.sim.cursor.http_exchange import HttpExchange
from tieline.sim.cursor.refusals import RunRefused, ServiceRefusal
from tieline.sim.cursor.run_input import RunInput
from tieline.sim.cursor.server_turn import HEARTBEAT
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Style, Wait
from tieline.sim.cursor.wire_formats import WireFormat, compressed_frame
from tieline.wire.framing.connect import frame

_GONE = ServiceRefusal(code="canceled", message="the client has closed its side of the stream")


class RunPlayer:
    """Plays one run on one HTTP exchange."""

    def __init__(self, exchange: HttpExchange, run_input: RunInput, wire_format: WireFormat) -> None:
        self.is_input_closed = False
        """Whether the client has closed its side of the stream."""
        self._exchange = exchange
        self._run_input = run_input
        self._wire_format = wire_format
        self._settings = run_input.run.settings
        self._style: Style = self._settings.style
        self._frames: list[bytes] = []
        self._is_begun = False
        self._next_beat = 0.0

    async def play(self, steps: Iterable[Step]) -> str:
        """Perform the steps until one of them ends the run, and return how the run ended (see `RunRecord.ending`).

        If no step ends the run, end the response without an end frame.
        """
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
                    # Let other tasks run.
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
        """Perform one step. If it ends the run, return how the run ended, otherwise an empty string."""
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
                # Handled by the caller, which combines them with earlier messages.
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
            self._run_input.arrived.clear()
            until = min(deadline, self._next_beat) if wait.beats else deadline
            try:
                async with asyncio.timeout_at(until):
                    await self._run_input.arrived.wait()
            except TimeoutError:
                if loop.time() >= deadline:
                    return
                await self._beat(loop.time())

    async def _beat(self, now: float) -> None:
        if now >= self._next_beat:
            self._next_beat = now + self._settings.heartbeat
            await self._write(self._framed(HEARTBEAT.message))

    def _check_line(self, wait: Wait) -> None:
        if self._run_input.failure is not None:
            raise self._run_input.failure
        if self.is_input_closed and wait.seconds is None:
            raise RunRefused(_GONE)

    # Writing

    def _framed(self, message: bytes) -> bytes:
        return compressed_frame(message) if self._style.gzip else frame(message)

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
                # Makes it likely that the pieces reach the client one by one.
                await asyncio.sleep(0)

    async def _begin(self) -> None:
        self._is_begun = True
        headers = [("content-type", self._wire_format.content_type)]
        if self._style.gzip and self._style.announce:
            name = "grpc-encoding" if self._wire_format.framing == "grpc-web" else "connect-content-encoding"
            headers.append((name, "gzip"))
        await self._exchange.start(200, headers)

    # Ending

    async def _end(self, refusal: ServiceRefusal | None) -> None:
        self._frames.append(self._wire_format.end(refusal))
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
