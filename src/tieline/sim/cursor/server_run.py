"""The server's state for one run: the messages received from the client, and the requests that the server can send.

The server sends three kinds of numbered requests: exec requests let the client run a tool, kv requests let it store or
return a blob, and queries ask the user. Answers are stored by number, so that a run can check whether one has arrived.
An exec request counts as answered once a result has arrived, because some clients never close the stream of results.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from google.protobuf.message import Message

from tieline.sim.cursor.refusals import NAMED, RunRefused, ServiceRefusal
from tieline.sim.cursor.settings import SimSettings
from tieline.sim.cursor.steps import Routine, Send, Steps, Wait
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import exec_pb2, kv_pb2, queries_pb2, updates_pb2

HELD_LIMIT = 256 * 1024 * 1024
"""Maximum total size in bytes of a client's messages in one run."""

_SHELL_ENDINGS = frozenset({"exit", "rejected", "permission_denied", "backgrounded", "sandbox_unsupported"})


class ServerRun:
    """The server's state for one run. `on_leg` is called when a leg begins."""

    def __init__(
        self,
        settings: SimSettings,
        request_id: str = "",
        on_leg: Callable[[], None] | None = None,
        *,
        native: frozenset[str] = frozenset(),
    ) -> None:
        self.settings = settings
        self.request_id = request_id
        self.request: agent.AgentRunRequest | None = None
        self.context: context.RequestContext | None = None
        self.override_text: str | None = None
        """The text that the demo model receives instead of the user's message, if a script sets it."""
        self.native = native
        """The names of the built-in tools that the model may use with this client."""
        self.legs = 0
        self.blobs: dict[bytes, bytes] = {}
        """The client's blobs that the server has sent or received during this run, by id."""
        self.results: dict[int, list[exec_pb2.ExecClientMessage]] = {}
        self.throws: dict[int, str] = {}
        self.closed: set[int] = set()
        """The numbers of the exec requests whose stream of results the client has closed."""
        self.kv: dict[int, kv_pb2.KvClientMessage] = {}
        self.replies: dict[int, queries_pb2.InteractionResponse] = {}
        self.injections: deque[conversation.InjectContextAction] = deque()
        self.is_cancelled = False
        self._asked: dict[str, list[int]] = {"exec": [], "kv": [], "query": []}
        self._held = 0
        self._on_leg = on_leg

    # Messages from the client

    def receive(self, message: agent.AgentClientMessage) -> None:
        """Store a message from the client. Raise RunRefused if the client has sent too much data."""
        self._held += message.ByteSize()
        if self._held > HELD_LIMIT:
            raise RunRefused(ServiceRefusal(code="resource_exhausted", message="the client has sent too much"))
        match message.WhichOneof("message"):
            case "run_request" if self.request is None:
                self.request = message.run_request
                self.blobs |= {blob.id: blob.value for blob in self.request.pre_fetched_blobs}
            case "exec_client_message":
                result = message.exec_client_message
                self.results.setdefault(result.id, []).append(result)
            case "exec_client_control_message":
                self._control(message.exec_client_control_message)
            case "kv_client_message":
                self.kv[message.kv_client_message.id] = message.kv_client_message
            case "interaction_response":
                self.replies[message.interaction_response.id] = message.interaction_response
            case "conversation_action":
                self._act(message.conversation_action)
            case _:
                # Heartbeats, prewarming messages and unknown messages.
                pass

    def _control(self, message: exec_pb2.ExecClientControlMessage) -> None:
        match message.WhichOneof("message"):
            case "stream_close":
                self.closed.add(message.stream_close.id)
            case "throw":
                self.throws[message.throw.id] = message.throw.error
            case _:
                pass

    def _act(self, action: conversation.ConversationAction) -> None:
        match action.WhichOneof("action"):
            case "inject_context_action":
                self.injections.append(action.inject_context_action)
            case "cancel_action":
                self.is_cancelled = True
            case _:
                # Some clients send a resume action with a tool result; the run continues anyway.
                pass

    # Requests to the client

    def ask_exec(self, message: exec_pb2.ExecServerMessage, number: int | None = None) -> Send:
        """Return the step that asks the client to run a tool. The request's id is `number`, or the next free one."""
        message.id = self._number("exec", number)
        message.exec_id = message.exec_id or f"exec-{message.id}"
        return to_client(agent.AgentServerMessage(exec_server_message=message))

    def ask_query(self, message: queries_pb2.InteractionQuery, number: int | None = None) -> Send:
        """Return the step that sends a question to the user. The id of the query is `number`, or the next free one."""
        message.id = self._number("query", number)
        return to_client(agent.AgentServerMessage(interaction_query=message))

    def ask_kv(self, message: kv_pb2.KvServerMessage, number: int | None = None) -> Send:
        """Return the step that asks the client to store or return a blob.

        The request's id is `number`, or the next free one.
        """
        message.id = self._number("kv", number)
        return to_client(agent.AgentServerMessage(kv_server_message=message))

    def store(self, data: bytes) -> tuple[bytes, Send]:
        """Return the id of a new blob with this data, and the step that makes the client store it."""
        key = sha256(data).digest()
        self.blobs[key] = data
        args = kv_pb2.SetBlobArgs(blob_id=key, blob_data=data)
        return key, self.ask_kv(kv_pb2.KvServerMessage(set_blob_args=args))

    def _number(self, channel: str, number: int | None) -> int:
        asked = self._asked[channel]
        number = max(asked, default=0) + 1 if number is None else number
        asked.append(number)
        return number

    def begin_leg(self) -> int:
        """Begin the model's next leg, and return the number of the leg."""
        self.legs += 1
        if self._on_leg is not None:
            self._on_leg()
        return self.legs

    # Answers from the client

    def is_answered(self, exec_id: int) -> bool:
        """Return whether the client has answered an exec request: with a result, an error, or a closed stream."""
        if exec_id in self.throws or exec_id in self.closed:
            return True
        return any(_is_final(result) for result in self.results.get(exec_id, ()))

    def has_answers(self, channels: Iterable[str] = ("exec", "kv", "query")) -> bool:
        """Return whether the client has answered all requests of the kinds in `channels`."""
        answered: dict[str, Callable[[int], bool]] = {
            "exec": self.is_answered,
            "kv": self.kv.__contains__,
            "query": self.replies.__contains__,
        }
        return all(answered[channel](number) for channel in channels for number in self._asked[channel])

    def wait(self, until: Callable[[], bool], what: str, seconds: float | None = None) -> Steps:
        """Wait until `until()` is true. Raise RunRefused if the client cancels the run or does not answer in time.

        `what` names the missing answer in the error message. The time limit is `seconds`, by default the setting
        `patience`.
        """
        yield Wait(until=lambda: self.is_cancelled or until(), seconds=seconds)
        if not until():
            refusal = ServiceRefusal(code="deadline_exceeded", message=f"the client did not answer: {what}")
            raise RunRefused(ServiceRefusal(code="canceled", message="cancelled") if self.is_cancelled else refusal)

    def acknowledged(self) -> Steps:
        """Wait until the client has answered every request to store or return a blob."""
        yield from self.wait(lambda: self.has_answers(("kv",)), "a blob")

    def fetch(self, ids: Sequence[bytes], missing: ServiceRefusal = NAMED["blob"]) -> Routine[list[bytes]]:
        """Return the client's blobs with these ids. Raise RunRefused with `missing` if the client lacks any of them."""
        asked: dict[int, bytes] = {}
        for key in dict.fromkeys(ids):
            if key not in self.blobs:
                message = kv_pb2.KvServerMessage(get_blob_args=kv_pb2.GetBlobArgs(blob_id=key))
                send = self.ask_kv(message)
                asked[message.id] = key
                yield send
        yield from self.acknowledged()
        for number, key in asked.items():
            result = self.kv[number].get_blob_result
            if not result.HasField("blob_data"):
                raise RunRefused(missing)
            self.blobs[key] = result.blob_data
        return [self.blobs[key] for key in ids]


def to_client(message: agent.AgentServerMessage) -> Send:
    """Return the step that sends a message to the client."""
    return Send(message.SerializeToString())


def update(**fields: Message) -> Send:
    """Return the step that sends an InteractionUpdate with these fields: the progress of a turn, such as new text."""
    return to_client(agent.AgentServerMessage(interaction_update=updates_pb2.InteractionUpdate(**fields)))  # type: ignore[arg-type]  # the field name determines the type


def _is_final(result: exec_pb2.ExecClientMessage) -> bool:
    kind = result.WhichOneof("message")
    if kind == "shell_stream":
        return result.shell_stream.WhichOneof("event") in _SHELL_ENDINGS
    return kind is not None
