"""The client's side of a connection to a coding agent, without I/O.

    machine = ClientSide()
    machine.initialize("tieline", "1.0")
    pipe.write(machine.outbox())
    for fact in machine.feed(pipe.read()): ...

Send the content of the outbox after every method call, because requests from the agent that need no decision are
answered immediately. Rules:

- Facts are returned in the order of the messages. Updates for a session that is being created are held back until
  `SessionOpened`, because its name is unknown before that. A session that is loaded already has a name, so its history
  is reported immediately. Updates that arrive after the end of a turn are reported like any other update.
- Every request from the agent must be answered. If the client does not offer the method, this class answers with an
  error; otherwise the caller that receives the fact has to answer. Requests that still wait for a person when the turn
  ends are answered as cancelled and reported as `Withdrawn`.
- If the agent answers a prompt with an error after `cancel`, the turn ends as cancelled.
- An unreadable message has no effect on other messages.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tieline.model.events import StopReason
from tieline.wire.acp import extensions, facts, results, schema
from tieline.wire.acp.agent_requests import PERSON_KINDS, AgentRequestAnswers, ClientOffer, readers
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.session import options_of
from tieline.wire.acp.sessions import ClientSessions
from tieline.wire.framing.jsonrpc import (
    INTERNAL_ERROR,
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

__all__ = ["ClientOffer", "ClientSide"]

DEFAULT_OFFER = ClientOffer()

_UNNAMED = frozenset(["session/new", "session/fork"])
"""The methods for which the agent chooses the name of the session and returns it in the result."""
_QUIET = frozenset(
    ["authenticate", "logout", "session/close", "session/delete", "session/set_mode", "session/set_model"]
)
"""The methods whose result contains no information."""
_SHOWN = 200


class ClientSide(AgentRequestAnswers):
    """The client's side of the connection to one agent process, with all of its sessions.

    A method that sends a request returns the id of the request. The fact that answers the request has this id in its
    attribute `request`. If a request fails, that fact is `RequestRefused`.
    """

    def __init__(self, offer: ClientOffer = DEFAULT_OFFER, *, limit: int = LIMIT) -> None:
        super().__init__(JsonRpcPeer(limit=limit))
        self._offer = offer
        self._readers = readers(offer)
        self._sessions = ClientSessions()
        self._about: dict[int, str] = {}
        """The sessions that outgoing requests refer to, by request id."""
        self._opening: set[int] = set()
        """The ids of outgoing requests that create a session."""

    # ── outgoing requests ──

    def initialize(self, name: str, version: str, title: str | None = None) -> int:
        """Begin the connection, and tell the agent the client's name and version.

        Return the request id; the answer is an `Initialized` fact.
        """
        info = schema.Implementation(name=name, version=version, title=title)
        params = schema.InitializeParams(
            protocol_version=schema.VERSION, client_capabilities=self._offer.capabilities(), client_info=info
        )
        return self._request("initialize", params)

    def authenticate(self, login: str) -> int:
        """Log in with one of the agent's login methods. Return the request id; the answer is a `RequestDone` fact.

        `login` is the id of the login method.
        """
        return self._request("authenticate", schema.AuthenticateParams(method_id=login))

    def logout(self) -> int:
        """Log out of the agent. Return the request id; the answer is a `RequestDone` fact."""
        return self._request("logout", schema.PRESENT)

    def new_session(self, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()) -> int:
        """Create a session. Return the request id; the answer is a `SessionOpened` fact.

        `cwd` is the working directory of the session, `directories` are additional directories that belong to its
        workspace, and `servers` are MCP servers that the agent may use.
        """
        params = schema.NewSessionParams(
            cwd=cwd, mcp_servers=list(servers), additional_directories=list(directories) or None
        )
        request = self._request("session/new", params)
        self._opening.add(request)
        return request

    def load_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Reopen a session. Return the request id; the answer is a `SessionOpened` fact.

        Before the answer, the agent repeats the history of the session as updates. See `new_session` for the arguments.
        """
        return self._open_known("session/load", session, cwd, servers, directories)

    def resume_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Reopen a session. Return the request id; the answer is a `SessionOpened` fact.

        The agent does not repeat the history of the session. See `new_session` for the arguments.
        """
        return self._open_known("session/resume", session, cwd, servers, directories)

    def fork_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Create a session that begins with the history of `session`.

        Return the request id; the answer is a `SessionOpened` fact. See `new_session` for the other arguments.
        """
        request = self._open_known("session/fork", session, cwd, servers, directories)
        self._opening.add(request)
        return request

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> int:
        """List the agent's stored sessions. Return the request id; the answer is a `SessionsListed` fact.

        `cwd` limits the list to sessions in this directory. To continue a list, pass the `cursor` of the previous
        answer.
        """
        return self._request("session/list", schema.ListSessionsParams(cwd=cwd, cursor=cursor))

    def close_session(self, session: str) -> int:
        """Close a session without deleting it. Return the request id; the answer is a `RequestDone` fact."""
        return self._request("session/close", schema.SessionParams(session_id=session), session)

    def delete_session(self, session: str) -> int:
        """Delete a session that the agent has stored. Return the request id; the answer is a `RequestDone` fact."""
        return self._request("session/delete", schema.SessionParams(session_id=session), session)

    def set_mode(self, session: str, mode: str) -> int:
        """Set the mode of a session to the mode with the id `mode`.

        Return the request id; the answer is a `RequestDone` fact.
        """
        return self._request("session/set_mode", schema.SetModeParams(session_id=session, mode_id=mode), session)

    def set_model(self, session: str, model: str) -> int:
        """Set the model of a session to the model with the id `model`.

        Return the request id; the answer is a `RequestDone` fact.

        Use this for agents that offer models but have no option of the category `model`.
        """
        return self._request("session/set_model", schema.SetModelParams(session_id=session, model_id=model), session)

    def set_option(self, session: str, option: str, value: str | bool) -> int:
        """Set an option of a session. Return the request id; the answer is a `RequestDone` fact.

        If the agent's answer contains the new values of its options, an `OptionsChanged` fact precedes `RequestDone`.
        """
        kind = "boolean" if isinstance(value, bool) else None
        params = schema.SetConfigOptionParams(session_id=session, config_id=option, value=value, type=kind)
        return self._request("session/set_config_option", params, session)

    def prompt(self, session: str, blocks: Sequence[schema.ContentBlock]) -> int:
        """Send a prompt, which begins a turn. Return the request id.

        The answer is a `TurnEnded` fact. Not every agent allows two turns at once in the same session.
        """
        request = self._request("session/prompt", schema.PromptParams(session_id=session, prompt=list(blocks)), session)
        self._sessions.open(session).turn = request
        return request

    def cancel(self, session: str) -> list[int]:
        """Cancel the current turn of a session, if there is one. A `TurnEnded` fact will follow.

        Return the numbers of the agent's requests that were waiting for a person. This method answers them as
        cancelled.
        """
        known = self._sessions.open(session)
        known.is_cancelling = known.turn is not None
        self._peer.notify("session/cancel", schema.SessionParams(session_id=session))
        return self._withdraw_all(session)

    def forget_session(self, session: str) -> None:
        """Drop the state of a session, and cancel the agent's requests in it that wait for a person.

        The agent is not asked to close the session. Use this for agents that cannot close sessions.
        """
        self._withdraw_all(session)
        self._sessions.forget(session)

    def call(self, method: str, params: Any = None) -> int:
        """Send a request that the protocol does not define, and return its id.

        The answer is an `ExtensionAnswered` fact.
        """
        return self._request(method, params)

    def give_up(self, request: int) -> None:
        """Cancel an outgoing request. No fact will report its answer.

        Giving up a prompt ends its turn, and cancels the agent's requests that wait for a person.
        """
        self._peer.forget(request)
        self._opening.discard(request)
        self._peer.notify("$/cancel_request", schema.CancelRequestParams(request_id=request))
        self._end_turn(self._about.pop(request, ""), request)

    def outbox(self) -> bytes:
        """Remove and return the bytes to send."""
        return self._peer.outbox()

    # ── receiving ──

    def feed(self, data: bytes) -> list[Fact]:
        """Process the agent's next bytes, and return the facts in the messages that are complete now."""
        found: list[Fact] = []
        for item in self._peer.feed(data):
            found += self._receive(item)
        return found

    def close(self, reason: str) -> list[Fact]:
        """Close the connection, and return the last facts.

        Unanswered requests from the client are reported as failed for this reason. Unanswered requests from the agent
        are dropped, and reported as `Withdrawn`.
        """
        found: list[Fact] = []
        for item in self._peer.close():
            found += self._receive(item)
        found += [facts.Withdrawn(number=number) for number in self._open]
        self._open.clear()
        for request, method in self._peer.pending.items():
            self._peer.forget(request)
            found += self._refused(Response(request, method, Raw(b"null"), RpcError(INTERNAL_ERROR, reason)))
        self._peer.outbox()
        return found

    def _receive(self, item: Incoming) -> list[Fact]:
        match item:
            case Notification():
                return self._notified(item)
            case IncomingRequest():
                return self._requested(item)
            case Response(error=None):
                return self._answered(item)
            case Response():
                return self._refused(item)
            case SkippedInput(reason, beginning):
                return [facts.Stray(reason=reason, beginning=beginning)]

    # ── responses ──

    def _answered(self, answer: Response) -> list[Fact]:
        request, method, result = answer.id, answer.method, answer.result
        if method in results.HOW:
            return self._opened(answer)
        session = self._about.pop(request, "")
        if method == "session/prompt":
            return [*self._end_turn(session, request), results.turn_ended(request, session, result)]
        if method == "initialize":
            return [results.initialized(request, result) or _unreadable(answer)]
        if method == "session/list":
            return [results.listed(request, result)]
        if method == "session/set_config_option" or method in _QUIET:
            return self._done(answer, session)
        return [facts.ExtensionAnswered(request=request, method=method, result=_text(result))]

    def _opened(self, answer: Response) -> list[Fact]:
        self._opening.discard(answer.id)
        session = self._about.pop(answer.id, "")
        known = "" if answer.method in _UNNAMED else session
        opened = results.opened(answer.id, results.HOW[answer.method], known, answer.result)
        if opened is None:
            return [_unreadable(answer), *self._release()]
        self._sessions.open(opened.session)
        return [opened, *self._release()]

    def _done(self, answer: Response, session: str) -> list[Fact]:
        found: list[Fact] = []
        if answer.method in ("session/close", "session/delete"):
            found += [facts.Withdrawn(number=number) for number in self._withdraw_all(session)]
            self._sessions.forget(session)
        elif answer.method == "session/set_config_option":
            parsed = decode(schema.SetConfigOptionResult, answer.result)
            if parsed is not None and parsed.config_options:
                found.append(facts.OptionsChanged(session=session, options=options_of(parsed.config_options)))
        return [*found, facts.RequestDone(request=answer.id, method=answer.method, session=session)]

    def _refused(self, answer: Response) -> list[Fact]:
        session = self._about.pop(answer.id, "")
        error = answer.error or RpcError(INTERNAL_ERROR, "refused")
        known = self._sessions.get(session)
        was_cancelled = known is not None and known.turn == answer.id and known.is_cancelling
        found = self._end_turn(session, answer.id)
        if was_cancelled:
            end = StopReason.CANCELLED
            return [*found, facts.TurnEnded(request=answer.id, session=session, reason=end, stop_reason=error.message)]
        refused = facts.RequestRefused(
            request=answer.id,
            method=answer.method,
            session=session,
            code=error.code,
            message=error.message,
            data=error.data.decode("utf-8", "replace"),
        )
        return [*found, refused, *self._not_opened(answer, session)]

    def _not_opened(self, answer: Response, session: str) -> list[Fact]:
        """Drop a session that could not be opened, unless it has an active turn.

        Return the facts in the updates that were held back.
        """
        if answer.method not in results.HOW:
            return []
        self._opening.discard(answer.id)
        known = self._sessions.get(session)
        if answer.method not in _UNNAMED and known is not None and known.turn is None:
            self._sessions.forget(session)
        return self._release()

    def _end_turn(self, session: str, request: int) -> list[Fact]:
        known = self._sessions.get(session)
        if known is None or known.turn != request:
            return []
        known.end_turn()
        return [facts.Withdrawn(number=number) for number in self._withdraw_all(session)]

    def _release(self) -> list[Fact]:
        return self._sessions.release(is_opening=bool(self._opening))

    # ── notifications and requests from the agent ──

    def _notified(self, notification: Notification) -> list[Fact]:
        if notification.method == "session/update":
            return self._sessions.update(notification.params, is_opening=bool(self._opening))
        if notification.method == "$/cancel_request":
            return self._withdrawn_by_agent(notification.params)
        if notification.method == "elicitation/complete":
            parsed = decode(schema.ElicitationCompleteParams, notification.params)
            return [facts.QuestionCompleted(elicitation=parsed.elicitation_id)] if parsed else []
        if notification.method == extensions.UPDATE_TODOS:
            todos = decode(extensions.UpdateTodosParams, notification.params)
            return [self._sessions.find(todos.session_id, todos.tool_call_id).todos(todos)] if todos else []
        return [facts.Notified(method=notification.method, params=_text(notification.params))]

    def _withdrawn_by_agent(self, params: Raw) -> list[Fact]:
        named = decode(schema.CancelledRequest, params)
        numbers = self._peer.numbers_with_id(named.request_id) if named else []
        return [facts.Withdrawn(number=number) for number in numbers if self._withdraw(number)]

    def _requested(self, request: IncomingRequest) -> list[Fact]:
        if request.method in ("session/update", extensions.UPDATE_TODOS):
            # The agent sent a notification as a request, and waits for an answer.
            self._peer.result(request.number, schema.PRESENT)
            return self._notified(Notification(request.method, request.params))
        reader = self._readers.get(request.method)
        if reader is None:
            return [self._unknown(request)]
        reading = reader(request, self._sessions)
        if reading is None:
            self._peer.error(request.number, INVALID_PARAMS, "the parameters are not valid for this method")
            return [facts.UnknownRequested(method=request.method, reason="its parameters cannot be read")]
        fact, opened = reading
        self._register(request.number, opened)
        session = self._sessions.get(opened.session)
        if opened.kind in PERSON_KINDS and session is not None and session.is_cancelling:
            # The agent sent the request before it received the cancellation.
            self._withdraw(request.number)
            return []
        return [fact]

    def _unknown(self, request: IncomingRequest) -> Fact:
        if request.method.startswith(extensions.PREFIX):
            # Cursor's agent waits forever if a method is reported as unknown.
            self._peer.result(request.number, schema.PRESENT)
            return facts.UnknownRequested(method=request.method, reason="the method is unknown")
        self._peer.error(request.number, METHOD_NOT_FOUND, f"{request.method} is not offered by this client")
        return facts.UnknownRequested(method=request.method, reason="it is not offered")

    # ── sending ──

    def _request(self, method: str, params: Any, session: str = "") -> int:
        request = self._peer.request(method, params)
        if session:
            self._about[request] = session
        return request

    def _open_known(
        self,
        method: str,
        session: str,
        cwd: str,
        servers: Sequence[schema.McpServer],
        directories: Sequence[str],
    ) -> int:
        if method not in _UNNAMED:
            self._sessions.open(session)
        params = schema.KnownSessionParams(
            session_id=session,
            cwd=cwd,
            mcp_servers=list(servers),
            additional_directories=list(directories) or None,
        )
        return self._request(method, params, session)


def _unreadable(answer: Response) -> Fact:
    message = f"the agent's answer to {answer.method} cannot be read: {_text(answer.result)[:_SHOWN]}"
    return facts.RequestRefused(request=answer.id, method=answer.method, code=INTERNAL_ERROR, message=message)


def _text(json: Raw) -> str:
    return bytes(json).decode("utf-8", "replace")
