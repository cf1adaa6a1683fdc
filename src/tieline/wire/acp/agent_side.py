"""The agent's side of the protocol, without I/O. Tests use it to simulate an agent.

It is a thin layer: callers work directly with the structs of `schema.py` and `updates.py`. Requests with an unknown
method or unreadable parameters are answered with an error.
"""

from typing import NamedTuple

from msgspec import Raw

from tieline.wire.acp import schema, updates
from tieline.wire.framing.jsonrpc import (
    INVALID_PARAMS,
    LIMIT,
    METHOD_NOT_FOUND,
    Incoming,
    IncomingRequest,
    JsonRpcPeer,
    Notification,
    Response,
    RpcError,
    SkippedInput,
)
from tieline.wire.shared.lenient import decode

REQUESTS: dict[str, type[schema.AcpShape]] = {
    "initialize": schema.InitializeParams,
    "authenticate": schema.AuthenticateParams,
    "logout": schema.Empty,
    "session/new": schema.NewSessionParams,
    "session/load": schema.KnownSessionParams,
    "session/resume": schema.KnownSessionParams,
    "session/fork": schema.KnownSessionParams,
    "session/list": schema.ListSessionsParams,
    "session/close": schema.SessionParams,
    "session/delete": schema.SessionParams,
    "session/set_mode": schema.SetModeParams,
    "session/set_model": schema.SetModelParams,
    "session/set_config_option": schema.SetConfigOptionParams,
    "session/prompt": schema.PromptParams,
}
"""Maps the method of each request that a client sends to the struct for its parameters."""

NOTIFICATIONS: dict[str, type[schema.AcpShape]] = {
    "session/cancel": schema.SessionParams,
    "$/cancel_request": schema.CancelledRequest,
}
"""Maps the method of each notification that a client sends to the struct for its parameters."""

RESULTS: dict[str, type[schema.AcpShape]] = {
    "session/request_permission": schema.PermissionResult,
    "fs/read_text_file": schema.ReadFileResult,
    "fs/write_text_file": schema.Empty,
    "terminal/create": schema.CreateTerminalResult,
    "terminal/output": schema.TerminalOutputResult,
    "terminal/wait_for_exit": schema.ExitStatus,
    "terminal/kill": schema.Empty,
    "terminal/release": schema.Empty,
    "elicitation/create": schema.ElicitationResult,
}
"""Maps the method of each request that an agent sends to the struct for its result."""


class ClientRequest(NamedTuple):
    """A request from the client. Pass `number` to `AgentSide.answer` or `AgentSide.refuse` to answer it."""

    number: int
    method: str
    params: schema.AcpShape


class ClientNotification(NamedTuple):
    """A notification from the client."""

    method: str
    params: schema.AcpShape


class ClientAnswer(NamedTuple):
    """The client's answer to the agent's request with the id `request`.

    `result` is None if the client answered with an error, or if the result cannot be read.
    """

    request: int
    method: str
    result: schema.AcpShape | None
    error: RpcError | None


ClientMessage = ClientRequest | ClientNotification | ClientAnswer | SkippedInput


class AgentSide:
    """The agent's side of one connection."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._peer = JsonRpcPeer(limit=limit)

    def answer(self, number: int, result: schema.AcpShape) -> bool:
        """Answer a request from the client with a result. Return False if it was already answered."""
        return self._peer.result(number, result)

    def refuse(self, number: int, code: int, message: str) -> bool:
        """Answer a request from the client with an error. Return False if it was already answered."""
        return self._peer.error(number, code, message)

    def update(self, session: str, update: updates.Update) -> None:
        """Notify the client of an update to the session with the id `session`."""
        self._peer.notify("session/update", updates.UpdateParams(session_id=session, update=update))

    def request(self, method: str, params: schema.AcpShape) -> int:
        """Send a request with one of the methods in `RESULTS`, and return its id."""
        return self._peer.request(method, params)

    def outbox(self) -> bytes:
        """Remove and return the bytes to send."""
        return self._peer.outbox()

    def feed(self, data: bytes) -> list[ClientMessage]:
        """Process the client's next bytes, and return the messages that are complete now."""
        return [message for item in self._peer.feed(data) if (message := self._receive(item)) is not None]

    def _receive(self, item: Incoming) -> ClientMessage | None:
        match item:
            case IncomingRequest():
                return self._requested(item)
            case Notification(method, params):
                parsed = _params(NOTIFICATIONS.get(method), params)
                return None if parsed is None else ClientNotification(method, parsed)
            case Response(request, method, result, error):
                shape = RESULTS.get(method)
                return ClientAnswer(request, method, None if shape is None or error else decode(shape, result), error)
            case SkippedInput():
                return item

    def _requested(self, request: IncomingRequest) -> ClientMessage | None:
        shape = REQUESTS.get(request.method)
        params = _params(shape, request.params)
        if params is not None:
            return ClientRequest(request.number, request.method, params)
        if shape is None:
            self._peer.error(request.number, METHOD_NOT_FOUND, f"{request.method} is not a method of this agent")
        else:
            self._peer.error(request.number, INVALID_PARAMS, "the parameters are not valid for this method")
        return None


def _params(shape: type[schema.AcpShape] | None, params: Raw) -> schema.AcpShape | None:
    if shape is None:
        return None
    return decode(shape, b"{}" if bytes(params) == b"null" else params)
