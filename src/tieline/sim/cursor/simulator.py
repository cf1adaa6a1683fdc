"""The simulated service as a whole: which request goes where, who listens to whom, and what happened so far."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tieline.sim.cursor.dialects import Dialect, Unreadable, dialect_of, expanded
from tieline.sim.cursor.exchange import BodyTooLarge, Exchange, Incoming
from tieline.sim.cursor.faults import Scripts
from tieline.sim.cursor.line import Line, Lines, Record
from tieline.sim.cursor.native import natives_of
from tieline.sim.cursor.refusals import Refusal
from tieline.sim.cursor.run import Run
from tieline.sim.cursor.server import Server, Tls
from tieline.sim.cursor.settings import Settings
from tieline.sim.cursor.stage import Stage
from tieline.sim.cursor.steps import Steps
from tieline.sim.cursor.tokens import Tokens
from tieline.sim.cursor.turn import Program, Turn
from tieline.sim.cursor.unary import AGENT, Unary, refuse
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.framing.connect import FrameReader, FramingError

RUN = f"{AGENT}/Run"
RUN_SSE = f"{AGENT}/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"

KEPT_REQUESTS = 2000
KEPT_RUNS = 1000
FIRST_MESSAGE = 30.0
"""How long a run may take to say what it wants."""

_UNAUTHENTICATED = Refusal(code="unauthenticated", message="not logged in")


class CursorSim:
    """The service on a port of this machine; use it as `async with CursorSim() as sim`."""

    def __init__(self, settings: Settings | None = None, *, script: Program | Sequence[Any] | None = None) -> None:
        self.settings = settings or Settings()
        self.tokens = Tokens(self.settings)
        self.scripts = Scripts(script)
        self.requests: deque[Incoming] = deque(maxlen=KEPT_REQUESTS)
        """The heads of the requests so far."""
        self.journal: deque[Record] = deque(maxlen=KEPT_RUNS)
        """The runs so far: what each client said, and how it ended."""
        self.runs = 0
        """How many runs were begun: one for a turn, however many legs it takes."""
        self.appends = 0
        """How many messages came in calls of their own."""
        self.legs = 0
        """How often the model spoke: once in a turn, and once more for each round of tool results."""
        self._tls = False
        self._host = ""
        self._unary = Unary(self.settings, self.tokens)
        self._lines = Lines(self._line)
        self._server = Server(self._serve)
        self._happened = asyncio.Event()

    # What happened

    @property
    def open_runs(self) -> int:
        """How many runs are under way."""
        return sum(not record.ending for record in self.journal)

    @property
    def connections(self) -> int:
        """How many connections were made."""
        return self._server.connections

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something has happened; whoever waits sets the bound."""
        while not condition():
            self._happened.clear()
            await self._happened.wait()

    # Where it is

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    @property
    def url(self) -> str:
        """What a client takes for the address of the service."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: Tls | ssl.SSLContext | None = None) -> None:
        """Begin to listen."""
        self._host, self._tls = host, tls is not None
        await self._server.start(host, port, tls)

    async def aclose(self) -> None:
        """Stop, and cut every connection."""
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

    async def _serve(self, exchange: Exchange) -> None:
        head = exchange.request
        self.requests.append(head)
        self._tell()
        try:
            await self._route(exchange)
        except BodyTooLarge:
            await exchange.answer(413 if head.method else 400)
        except Unreadable as error:
            refusal = Refusal(code="invalid_argument", message=str(error))
            await refuse(exchange, dialect_of(head.header("content-type")), refusal)

    async def _route(self, exchange: Exchange) -> None:
        head = exchange.request
        if head.path not in (RUN, RUN_SSE, APPEND):
            await self._unary.answer(exchange)
            return
        dialect = dialect_of(head.header("content-type"))
        if head.version == "1.1" and (not self.settings.http1 or head.path == RUN):
            await exchange.answer(464)
        elif dialect is None or (head.path != APPEND and not dialect.is_streamed):
            await exchange.answer(415)
        elif not self.tokens.is_access(head.bearer):
            await self._unauthenticated(exchange, dialect)
        elif head.path == APPEND:
            await self._append(exchange, dialect)
        elif head.path == RUN:
            await self._run(exchange, dialect)
        else:
            await self._run_sse(exchange, dialect)

    async def _unauthenticated(self, exchange: Exchange, dialect: Dialect) -> None:
        if self.settings.unauthenticated == "frame" or not dialect.is_streamed:
            await refuse(exchange, dialect, _UNAUTHENTICATED)
        else:
            status, body = _UNAUTHENTICATED.whole()
            await exchange.answer(status, body, [("content-type", "application/json")])

    async def _append(self, exchange: Exchange, dialect: Dialect) -> None:
        message = aiserver.BidiAppendRequest()
        head = exchange.request
        dialect.read(expanded(await exchange.body(), head.header("content-encoding")), message)
        self.appends += 1
        request_id = message.request_id.request_id or head.header("x-request-id")
        line = self._lines.append_to(head, request_id)
        if line is not None:
            line.append(message.append_seqno, _data(message))
        await exchange.answer(
            200, dialect.whole(aiserver.BidiAppendResponse()), [("content-type", dialect.content_type)]
        )

    async def _run_sse(self, exchange: Exchange, dialect: Dialect) -> None:
        message = aiserver.BidiRequestId()
        head = exchange.request
        dialect.read(expanded(await exchange.body(), head.header("content-encoding")), message)
        request_id = message.request_id or head.header("x-request-id")
        line = self._lines.open(head, request_id)
        if line is None:
            await refuse(exchange, dialect, Refusal(code="already_exists", message="somebody listens to this run"))
            return
        try:
            await self._play(Stage(exchange, line, dialect), line)
        finally:
            self._lines.close(request_id)

    async def _run(self, exchange: Exchange, dialect: Dialect) -> None:
        line = self._line(exchange.request, exchange.request.header("x-request-id"))
        line.is_open = True
        stage = Stage(exchange, line, dialect)
        async with asyncio.TaskGroup() as group:
            pumping = group.create_task(_pump(exchange, line, stage))
            await self._play(stage, line)
            pumping.cancel()

    # Runs

    def _line(self, head: Incoming, request_id: str) -> Line:
        native = natives_of(head, self.settings.native)
        return Line(Run(self.settings, request_id, self._count_leg, native=native), head, self._tell)

    async def _play(self, stage: Stage, line: Line) -> None:
        self.runs += 1
        self.journal.append(line.record)
        try:
            line.record.ending = await stage.play(self._program(line))
        except ConnectionError:
            # The client is gone; its connection knows.
            pass
        finally:
            line.record.ending = line.record.ending or "left"
            self._tell()

    def _program(self, line: Line) -> Steps:
        run = line.run
        yield from run.wait(lambda: run.request is not None, "a run request", FIRST_MESSAGE)
        yield from self.scripts.play(Turn(run))

    def _count_leg(self) -> None:
        self.legs += 1

    def _tell(self) -> None:
        self._happened.set()


async def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    settings: Settings | None = None,
    tls: Tls | ssl.SSLContext | None = None,
    ready: Callable[[CursorSim], None] | None = None,
    native: bool = False,
) -> None:
    """Run the simulator until it is cancelled; `ready` is called once it listens.

    With `native` every client is taken to run Cursor's own tools, not only those that say so.
    """
    sim = CursorSim(settings or Settings(native=True if native else None))
    await sim.start(host, port, tls=tls)
    try:
        if ready is not None:
            ready(sim)
        await asyncio.Event().wait()
    finally:
        await sim.aclose()


async def _pump(exchange: Exchange, line: Line, stage: Stage) -> None:
    """Hear what the client says on the stream it is answered on."""
    frames = FrameReader()
    try:
        while data := await exchange.read():
            for frame in frames.feed(data):
                if not frame.flags:
                    line.hear(frame.payload)
    except FramingError as error:
        line.fail(Refusal(code="invalid_argument", message=str(error)))
    stage.is_deaf = True
    line.heard.set()


def _data(message: aiserver.BidiAppendRequest) -> bytes:
    """The message in an append; raises Unreadable."""
    if message.data_binary:
        return message.data_binary
    try:
        return bytes.fromhex(message.data)
    except ValueError as error:
        raise Unreadable("the data of an append is not hexadecimal") from error
