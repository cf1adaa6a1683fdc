"""Sorts the messages that a client sends during a run, and passes them to the run and to its record.

Over HTTP/1.1, the client sends each message in a separate call (an append). Appends may arrive out of order or twice,
so they are sorted by their number. The run request has the first number: 0 or 1, depending on the client. The warm-up
message that Cursor's editor sends is ignored.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from google.protobuf.message import DecodeError

from tieline.sim.cursor.http_exchange import RequestHead
from tieline.sim.cursor.refusals import RunRefused, ServiceRefusal
from tieline.sim.cursor.server_run import ServerRun
from tieline.wire.cursor._pb import agent_pb2 as agent

AHEAD = 4096
"""Maximum number of appends that are held back while an earlier one is missing."""
WAITING = 1024
"""Maximum number of runs whose response stream has not been opened yet. If there are more, the oldest are dropped."""
ENDED = 4096
"""Maximum number of ended runs that are remembered. Late messages for a remembered run are ignored."""
JOURNAL_MESSAGES = 1000
JOURNAL_BYTES = 16 * 1024 * 1024

_WARM_UP = bytes.fromhex("0a03666f6f")


class RunRecord:
    """The record of one run, for inspection by tests."""

    def __init__(self, head: RequestHead, run: ServerRun) -> None:
        self.head = head
        """The head of the HTTP request that opened the run."""
        self.run = run
        self.received: deque[agent.AgentClientMessage] = deque(maxlen=JOURNAL_MESSAGES)
        """The messages from the client. If there are too many, the oldest are dropped."""
        self.duplicates = 0
        self.ending = ""
        """How the run ended: `ended`, `refused: CODE`, `status 464`, `eof`, `reset`, `cut` or `left`.

        `left` means that the client disconnected. Empty while the run is in progress.
        """
        self._size = 0

    @property
    def kinds(self) -> list[str]:
        """The kind of each message from the client: the name of its protobuf field."""
        return [message.WhichOneof("message") or "" for message in self.received]

    def add(self, message: agent.AgentClientMessage) -> None:
        """Record a message from the client."""
        self._size += message.ByteSize()
        self.received.append(message)
        while self._size > JOURNAL_BYTES and len(self.received) > 1:
            self._size -= self.received.popleft().ByteSize()


class RunInput:
    """Receives the client's messages for one run. `on_message` is called after each message."""

    def __init__(self, run: ServerRun, head: RequestHead, on_message: Callable[[], None]) -> None:
        self.run = run
        self.record = RunRecord(head, run)
        self.arrived = asyncio.Event()
        self.failure: RunRefused | None = None
        """The reason why the run has to fail, if the client has sent an invalid message or too much data."""
        self.is_open = False
        """Whether the response stream is open."""
        self._on_message = on_message
        self._next = 0
        self._ahead: dict[int, bytes] = {}

    def append(self, number: int, data: bytes) -> None:
        """Add a numbered message. It is passed to the run after all messages with smaller numbers."""
        if self._next == 0 and self.run.request is None and _is_run_request(data):
            self._next = number
        if number < self._next or number in self._ahead:
            self.record.duplicates += 1
            return
        self._ahead[number] = data
        if len(self._ahead) > AHEAD:
            self.fail(ServiceRefusal(code="out_of_range", message=f"append {self._next} is missing"))
        while self._next in self._ahead:
            data = self._ahead.pop(self._next)
            self._next += 1
            self.receive(data)

    def receive(self, data: bytes) -> None:
        """Pass a message to the run. Messages must arrive here in order."""
        if data == _WARM_UP:
            return
        try:
            message = agent.AgentClientMessage.FromString(data)
            self.record.add(message)
            self.run.receive(message)
        except DecodeError:
            self.fail(ServiceRefusal(code="invalid_argument", message="not an AgentClientMessage"))
        except RunRefused as error:
            self.failure = self.failure or error
        self.arrived.set()
        self._on_message()

    def fail(self, refusal: ServiceRefusal) -> None:
        """Make the run fail with this refusal."""
        self.failure = self.failure or RunRefused(refusal)
        self.arrived.set()


class RunInputs:
    """The inputs of runs over HTTP/1.1, by request id. The response stream and the appends of a run share this id."""

    def __init__(self, make: Callable[[RequestHead, str], RunInput]) -> None:
        self._make = make
        self._inputs: OrderedDict[str, RunInput] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def open(self, head: RequestHead, request_id: str) -> RunInput | None:
        """Mark the response stream of a run as open, and return the run's input; None if it was already open."""
        run_input = self._inputs.get(request_id)
        if run_input is not None and run_input.is_open:
            return None
        if run_input is None:
            run_input = self._inputs[request_id] = self._make(head, request_id)
        self._ended.pop(request_id, None)
        run_input.record.head = head
        run_input.is_open = True
        return run_input

    def append_to(self, head: RequestHead, request_id: str) -> RunInput | None:
        """Return the input of the run with this request id, created if necessary. Return None if the run has ended."""
        if request_id in self._ended:
            return None
        run_input = self._inputs.get(request_id)
        if run_input is None:
            run_input = self._inputs[request_id] = self._make(head, request_id)
            self._drop_unopened()
        return run_input

    def close(self, request_id: str) -> None:
        """Forget the input of a run that has ended."""
        self._inputs.pop(request_id, None)
        self._ended[request_id] = None
        if len(self._ended) > ENDED:
            self._ended.popitem(last=False)

    def _drop_unopened(self) -> None:
        unopened = [request_id for request_id, run_input in self._inputs.items() if not run_input.is_open]
        for request_id in unopened[: max(0, len(unopened) - WAITING)]:
            del self._inputs[request_id]


def _is_run_request(data: bytes) -> bool:
    return data[:1] == b"\x0a" and data != _WARM_UP
