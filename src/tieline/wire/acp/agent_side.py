"""The agent's role, without I/O: what a client asks is read into shapes, what an agent says is written.

It is as thin as it can be: whoever plays the agent reads and fills the shapes of `schema.py` and `updates.py` itself.
What a client asks that no agent of this protocol knows, or that cannot be read, is answered with an error at once.
"""

from typing import NamedTuple

from msgspec import Raw

from tieline.wire.acp import schema, updates
from tieline.wire.framing.jsonrpc import (
    INVALID_PARAMS,
    LIMIT,
    METHOD_NOT_FOUND,
    Incoming,
    Notification,
    Peer,
    Request,
    Response,
    RpcError,
    Skipped,
)
from tieline.wire.shared.lenient import decode

ASKED: dict[str, type[schema.Shape]] = {
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
"""What a client may ask, and the shape of its parameters."""

TOLD: dict[str, type[schema.Shape]] = {
    "session/cancel": schema.SessionParams,
    "$/cancel_request": schema.CancelledRequest,
}
"""What a client may tell."""

ANSWERED: dict[str, type[schema.Shape]] = {
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
"""What an agent may ask, and the shape of the answer."""


class Asked(NamedTuple):
    """The client asks; answer it by `ask`."""

    ask: int
    method: str
    params: schema.Shape


class Told(NamedTuple):
    """The client tells something."""

    method: str
    params: schema.Shape


class Answer(NamedTuple):
    """The client's answer to what the agent asked: an error, or a result (None if it cannot be read)."""

    request: int
    method: str
    result: schema.Shape | None
    error: RpcError | None


Heard = Asked | Told | Answer | Skipped


class AgentSide:
    """The agent of one client."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._peer = Peer(limit=limit)

    def answer(self, ask: int, result: schema.Shape) -> bool:
        """Answer what the client asked; False if that was done already."""
        return self._peer.result(ask, result)

    def refuse(self, ask: int, code: int, message: str) -> bool:
        """Answer with an error."""
        return self._peer.error(ask, code, message)

    def update(self, session: str, update: updates.Update) -> None:
        """Tell what happens in a session."""
        self._peer.notify("session/update", updates.UpdateParams(session_id=session, update=update))

    def ask(self, method: str, params: schema.Shape) -> int:
        """Ask the client for one of the things in `ANSWERED`."""
        return self._peer.request(method, params)

    def outbox(self) -> bytes:
        """What is to be sent now; it is taken out."""
        return self._peer.outbox()

    def feed(self, data: bytes) -> list[Heard]:
        """What the client's next bytes mean."""
        return [heard for item in self._peer.feed(data) if (heard := self._receive(item)) is not None]

    def _receive(self, item: Incoming) -> Heard | None:
        match item:
            case Request():
                return self._asked(item)
            case Notification(method, params):
                told = _params(TOLD.get(method), params)
                return None if told is None else Told(method, told)
            case Response(request, method, result, error):
                shape = ANSWERED.get(method)
                return Answer(request, method, None if shape is None or error else decode(shape, result), error)
            case Skipped():
                return item

    def _asked(self, asked: Request) -> Heard | None:
        shape = ASKED.get(asked.method)
        params = _params(shape, asked.params)
        if params is not None:
            return Asked(asked.ask, asked.method, params)
        if shape is None:
            self._peer.error(asked.ask, METHOD_NOT_FOUND, f"{asked.method} is not a method of this agent")
        else:
            self._peer.error(asked.ask, INVALID_PARAMS, "the parameters are not those of this method")
        return None


def _params(shape: type[schema.Shape] | None, params: Raw) -> schema.Shape | None:
    if shape is None:
        return None
    return decode(shape, b"{}" if bytes(params) == b"null" else params)
