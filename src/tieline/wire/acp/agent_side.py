"""The agent's side of the protocol, without I/O. Tests use it to play an agent.

It is a thin layer: callers read and build the shapes of `schema.py` and `updates.py` themselves. Requests with an
unknown method or unreadable parameters are answered with an error.
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
"""The requests of a client, and the shapes of their parameters."""

NOTIFICATIONS: dict[str, type[schema.AcpShape]] = {
    "session/cancel": schema.SessionParams,
    "$/cancel_request": schema.CancelledRequest,
}
"""The notifications of a client, and the shapes of their parameters."""

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
"""The requests of an agent, and the shapes of their results."""


class ClientRequest(NamedTuple):
    """A request of the client. `number` identifies it when it is answered."""

    number: int
    method: str
    params: schema.AcpShape


class ClientNotification(NamedTuple):
    """A notification of the client."""

    method: str
    params: schema.AcpShape


class ClientAnswer(NamedTuple):
    """The client's answer to a request of the agent. `result` is None after an error, or if it cannot be read."""

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
        """Answer a request. Return False if it was answered already."""
        return self._peer.result(number, result)

    def refuse(self, number: int, code: int, message: str) -> bool:
        """Answer a request with an error."""
        return self._peer.error(number, code, message)

    def update(self, session: str, update: updates.Update) -> None:
        """Send an update of a session."""
        self._peer.notify("session/update", updates.UpdateParams(session_id=session, update=update))

    def request(self, method: str, params: schema.AcpShape) -> int:
        """Send one of the requests in `RESULTS` and return its id."""
        return self._peer.request(method, params)

    def outbox(self) -> bytes:
        """Remove and return the bytes to send."""
        return self._peer.outbox()

    def feed(self, data: bytes) -> list[ClientMessage]:
        """Return the messages that the client's next bytes complete."""
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
