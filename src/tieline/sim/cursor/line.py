"""The line from a client to its run: messages as they come in, put in order, filed in the run and in the journal.

Appends may overtake one another and may come twice; they count by their number. The run request opens the count
wherever it stands, since some clients begin again at one, and what an editor sends to warm up is no message.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from google.protobuf.message import DecodeError

from tieline.sim.cursor.exchange import Incoming
from tieline.sim.cursor.refusals import Refusal, RunRefused
from tieline.sim.cursor.run import Run
from tieline.wire.cursor._pb import agent_pb2 as agent

AHEAD = 4096
"""How many appends may wait for one that is missing."""
WAITING = 1024
"""How many runs may wait for somebody to listen to them."""
ENDED = 4096
"""How many runs that are over are remembered, so that what comes late for them is ignored."""
JOURNAL_MESSAGES = 1000
JOURNAL_BYTES = 16 * 1024 * 1024

_WARM_UP = bytes.fromhex("0a03666f6f")


class Record:
    """What happened in one run, for whoever wants to look afterwards."""

    def __init__(self, head: Incoming, run: Run) -> None:
        self.head = head
        """The head of the request that opened it."""
        self.run = run
        self.received: deque[agent.AgentClientMessage] = deque(maxlen=JOURNAL_MESSAGES)
        """What the client has said, the latest of it if there is too much."""
        self.duplicates = 0
        self.ending = ""
        """How it ended: `ended`, `refused: code`, `status 464`, `eof`, `reset`, `cut`, or `left` when the client did.

        Nothing while it goes on.
        """
        self._size = 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of the messages received."""
        return [message.WhichOneof("message") or "" for message in self.received]

    def add(self, message: agent.AgentClientMessage) -> None:
        """Keep a message."""
        self._size += message.ByteSize()
        self.received.append(message)
        while self._size > JOURNAL_BYTES and len(self.received) > 1:
            self._size -= self.received.popleft().ByteSize()


class Line:
    """One run and what its client says to it."""

    def __init__(self, run: Run, head: Incoming, told: Callable[[], None]) -> None:
        self.run = run
        self.record = Record(head, run)
        self.heard = asyncio.Event()
        self.trouble: RunRefused | None = None
        """What the client has done wrong, if anything."""
        self.is_open = False
        """Whether somebody listens to the run."""
        self._told = told
        self._next = 0
        self._ahead: dict[int, bytes] = {}

    def append(self, number: int, data: bytes) -> None:
        """A numbered message: it is heard when all before it were."""
        if self._next == 0 and self.run.request is None and _is_run_request(data):
            self._next = number
        if number < self._next or number in self._ahead:
            self.record.duplicates += 1
            return
        self._ahead[number] = data
        if len(self._ahead) > AHEAD:
            self.fail(Refusal(code="out_of_range", message=f"append {self._next} is missing"))
        while self._next in self._ahead:
            data = self._ahead.pop(self._next)
            self._next += 1
            self.hear(data)

    def hear(self, data: bytes) -> None:
        """A message whose turn it is."""
        if data == _WARM_UP:
            return
        try:
            message = agent.AgentClientMessage.FromString(data)
            self.record.add(message)
            self.run.receive(message)
        except DecodeError:
            self.fail(Refusal(code="invalid_argument", message="this is no AgentClientMessage"))
        except RunRefused as error:
            self.trouble = self.trouble or error
        self.heard.set()
        self._told()

    def fail(self, refusal: Refusal) -> None:
        """Nothing good can come any more."""
        self.trouble = self.trouble or RunRefused(refusal)
        self.heard.set()


class Lines:
    """The lines of the transport that has one call for each direction, by the id both of them name."""

    def __init__(self, make: Callable[[Incoming, str], Line]) -> None:
        self._make = make
        self._lines: OrderedDict[str, Line] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def open(self, head: Incoming, request_id: str) -> Line | None:
        """The line that somebody listens to now; None if somebody does already."""
        line = self._lines.get(request_id)
        if line is not None and line.is_open:
            return None
        if line is None:
            line = self._lines[request_id] = self._make(head, request_id)
        self._ended.pop(request_id, None)
        line.record.head = head
        line.is_open = True
        return line

    def append_to(self, head: Incoming, request_id: str) -> Line | None:
        """The line an append belongs to, though nobody may listen yet; None when the run is over."""
        if request_id in self._ended:
            return None
        line = self._lines.get(request_id)
        if line is None:
            line = self._lines[request_id] = self._make(head, request_id)
            self._forget_unheard()
        return line

    def close(self, request_id: str) -> None:
        """The run is over."""
        self._lines.pop(request_id, None)
        self._ended[request_id] = None
        if len(self._ended) > ENDED:
            self._ended.popitem(last=False)

    def _forget_unheard(self) -> None:
        unheard = [request_id for request_id, line in self._lines.items() if not line.is_open]
        for request_id in unheard[: max(0, len(unheard) - WAITING)]:
            del self._lines[request_id]


def _is_run_request(data: bytes) -> bool:
    return data[:1] == b"\x0a" and data != _WARM_UP
