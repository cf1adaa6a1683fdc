"""The simulator of Cursor's service: it routes and records requests, and plays and records runs."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tieline.sim.cursor.http_exchange import BodyTooLarge, HttpExchange, RequestHead
from tieline.sim.cursor.native_tools import native_tools_of
from tieline.sim.cursor.player import RunPlayer
from tieline.sim.cursor.refusals import ServiceRefusal
from tieline.sim.cursor.run_input import RunInput, RunInputs, RunRecord
from tieline.sim.cursor.scripts import Scripts
from tieline.sim.cursor.server import SimServer, Tls
from tieline.sim.cursor.server_run import ServerRun
from tieline.sim.cursor.server_turn import Program, ServerTurn
from tieline.sim.cursor.settings import SimSettings
from tieline.sim.cursor.steps import Steps
from tieline.sim.cursor.tokens import TokenIssuer
from tieline.sim.cursor.unary_calls import AGENT, UnaryCalls, refuse
from tieline.sim.cursor.wire_formats import Unreadable, WireFormat, decompressed, wire_format_of
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.framing.connect import FrameReader, FramingError

RUN = f"{AGENT}/Run"
RUN_SSE = f"{AGENT}/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"

KEPT_REQUESTS = 2000
KEPT_RUNS = 1000
FIRST_MESSAGE = 30.0
"""Seconds to wait for the first message of a run, the run request."""

_UNAUTHENTICATED = ServiceRefusal(code="unauthenticated", message="not logged in")


class CursorSim:
    """A simulator of Cursor's service on a local port; use it as `async with CursorSim() as sim`."""

    def __init__(self, settings: SimSettings | None = None, *, script: Program | Sequence[Any] | None = None) -> None:
        self.settings = settings or SimSettings()
        self.tokens = TokenIssuer(self.settings)
        self.scripts = Scripts(script)
        self.requests: deque[RequestHead] = deque(maxlen=KEPT_REQUESTS)
        """The heads of the most recent requests."""
        self.journal: deque[RunRecord] = deque(maxlen=KEPT_RUNS)
        """Records of the most recent runs, with the client's messages and the ending of each run."""
        self.runs = 0
        """Number of runs so far: one for each turn, however many legs it takes."""
        self.appends = 0
        """Number of client messages that arrived as separate HTTP calls (appends)."""
        self.legs = 0
        """Number of legs so far: one for each turn, and one more for each round of tool results."""
        self._tls = False
        self._host = ""
        self._unary = UnaryCalls(self.settings, self.tokens)
        self._run_inputs = RunInputs(self._run_input)
        self._server = SimServer(self._serve)
        self._happened = asyncio.Event()

    # Observations

    @property
    def open_runs(self) -> int:
        """Number of runs in progress."""
        return sum(not record.ending for record in self.journal)

    @property
    def connections(self) -> int:
        """Number of connections accepted so far."""
        return self._server.connections

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, without a timeout, until `condition` is true. It is checked after every request and message."""
        while not condition():
            self._happened.clear()
            await self._happened.wait()

    # Address

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._server.port

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: Tls | ssl.SSLContext | None = None) -> None:
        """Start listening. Port 0 picks a free port."""
        self._host, self._tls = host, tls is not None
        await self._server.start(host, port, tls)

    async def aclose(self) -> None:
        """Stop the server and close every connection."""
        await self._server.aclose()

    async def __aenter__(self) -> Self:
        if not self.port:
            await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Requests

    async def _serve(self, exchange: HttpExchange) -> None:
        head = exchange.request
        self.requests.append(head)
        self._tell()
        try:
            await self._route(exchange)
        except BodyTooLarge:
            await exchange.answer(413 if head.method else 400)
        except Unreadable as error:
            refusal = ServiceRefusal(code="invalid_argument", message=str(error))
            await refuse(exchange, wire_format_of(head.header("content-type")), refusal)

    async def _route(self, exchange: HttpExchange) -> None:
        head = exchange.request
        if head.path not in (RUN, RUN_SSE, APPEND):
            await self._unary.answer(exchange)
            return
        wire_format = wire_format_of(head.header("content-type"))
        if head.version == "1.1" and (not self.settings.http1 or head.path == RUN):
            await exchange.answer(464)
        elif wire_format is None or (head.path != APPEND and not wire_format.is_streamed):
            await exchange.answer(415)
        elif not self.tokens.is_access(head.bearer):
            await self._unauthenticated(exchange, wire_format)
        elif head.path == APPEND:
            await self._append(exchange, wire_format)
        elif head.path == RUN:
            await self._run(exchange, wire_format)
        else:
            await self._run_sse(exchange, wire_format)

    async def _unauthenticated(self, exchange: HttpExchange, wire_format: WireFormat) -> None:
        if self.settings.unauthenticated == "frame" or not wire_format.is_streamed:
            await refuse(exchange, wire_format, _UNAUTHENTICATED)
        else:
            status, body = _UNAUTHENTICATED.whole()
            await exchange.answer(status, body, [("content-type", "application/json")])

    async def _append(self, exchange: HttpExchange, wire_format: WireFormat) -> None:
        message = aiserver.BidiAppendRequest()
        head = exchange.request
        wire_format.read(decompressed(await exchange.body(), head.header("content-encoding")), message)
        self.appends += 1
        request_id = message.request_id.request_id or head.header("x-request-id")
        run_input = self._run_inputs.append_to(head, request_id)
        if run_input is not None:
            run_input.append(message.append_seqno, _data(message))
        await exchange.answer(
            200, wire_format.whole(aiserver.BidiAppendResponse()), [("content-type", wire_format.content_type)]
        )

    async def _run_sse(self, exchange: HttpExchange, wire_format: WireFormat) -> None:
        message = aiserver.BidiRequestId()
        head = exchange.request
        wire_format.read(decompressed(await exchange.body(), head.header("content-encoding")), message)
        request_id = message.request_id or head.header("x-request-id")
        run_input = self._run_inputs.open(head, request_id)
        if run_input is None:
            await refuse(
                exchange,
                wire_format,
                ServiceRefusal(code="already_exists", message="the stream of this run is already open"),
            )
            return
        try:
            await self._play(RunPlayer(exchange, run_input, wire_format), run_input)
        finally:
            self._run_inputs.close(request_id)

    async def _run(self, exchange: HttpExchange, wire_format: WireFormat) -> None:
        run_input = self._run_input(exchange.request, exchange.request.header("x-request-id"))
        run_input.is_open = True
        player = RunPlayer(exchange, run_input, wire_format)
        async with asyncio.TaskGroup() as group:
            pumping = group.create_task(_pump(exchange, run_input, player))
            await self._play(player, run_input)
            pumping.cancel()

    # Runs

    def _run_input(self, head: RequestHead, request_id: str) -> RunInput:
        native = native_tools_of(head, self.settings.native)
        return RunInput(ServerRun(self.settings, request_id, self._count_leg, native=native), head, self._tell)

    async def _play(self, player: RunPlayer, run_input: RunInput) -> None:
        self.runs += 1
        self.journal.append(run_input.record)
        try:
            run_input.record.ending = await player.play(self._program(run_input))
        except ConnectionError:
            # The client has disconnected.
            pass
        finally:
            run_input.record.ending = run_input.record.ending or "left"
            self._tell()

    def _program(self, run_input: RunInput) -> Steps:
        run = run_input.run
        yield from run.wait(lambda: run.request is not None, "a run request", FIRST_MESSAGE)
        yield from self.scripts.play(ServerTurn(run))

    def _count_leg(self) -> None:
        self.legs += 1

    def _tell(self) -> None:
        self._happened.set()


async def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    settings: SimSettings | None = None,
    tls: Tls | ssl.SSLContext | None = None,
    ready: Callable[[CursorSim], None] | None = None,
    native: bool = False,
) -> None:
    """Run a simulator until this coroutine is cancelled. `ready` is called once it is listening.

    With `native`, the model uses Cursor's built-in tools with every client, not only with Cursor's own clients. If
    `settings` are passed, `native` is ignored.
    """
    sim = CursorSim(settings or SimSettings(native=True if native else None))
    await sim.start(host, port, tls=tls)
    try:
        if ready is not None:
            ready(sim)
        await asyncio.Event().wait()
    finally:
        await sim.aclose()


async def _pump(exchange: HttpExchange, run_input: RunInput, player: RunPlayer) -> None:
    """Pass the messages in the request body to the run, while the response is being sent."""
    frames = FrameReader()
    try:
        while data := await exchange.read():
            for frame in frames.feed(data):
                if not frame.flags:
                    run_input.receive(frame.payload)
    except FramingError as error:
        run_input.fail(ServiceRefusal(code="invalid_argument", message=str(error)))
    player.is_input_closed = True
    run_input.arrived.set()


def _data(message: aiserver.BidiAppendRequest) -> bytes:
    """Return the client message in an append. Raise Unreadable if it is not valid hexadecimal."""
    if message.data_binary:
        return message.data_binary
    try:
        return bytes.fromhex(message.data)
    except ValueError as error:
        raise Unreadable("the data of an append is not hexadecimal") from error
