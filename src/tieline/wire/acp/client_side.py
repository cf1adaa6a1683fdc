"""A client of a coding agent, without I/O: what we ask, what the agent tells, what it asks, what we answer.

    machine = ClientSide()
    machine.initialize("tieline", "1.0")
    pipe.write(machine.outbox())
    for fact in machine.feed(pipe.read()): ...

Whatever is called or fed, look into the outbox afterwards: answers that need nobody's decision are written at once.
Rules:

- Facts come in the order of their messages. Updates of a session that is still being opened wait for its
  `SessionOpened`, since only then somebody knows its name; a session that is loaded has its name already, so its
  history comes at once. Updates after the end of a turn are facts like any other.
- Whatever the agent asks is answered: by us with an error if we do not have it or did not offer it, else by whoever
  got the fact. What a person was asked ends with the turn at the latest, answered as cancelled and told as `Withdrawn`.
- After `cancel` the turn ends as cancelled, also when the agent calls that an error.
- What cannot be read costs no more than itself.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tieline.model.events import StopReason
from tieline.wire.acp import extensions, facts, results, schema
from tieline.wire.acp.agent_requests import Offer, readers
from tieline.wire.acp.answers import HUMAN, Answers
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.session import options_of
from tieline.wire.acp.sessions import Sessions
from tieline.wire.framing.jsonrpc import (
    INTERNAL_ERROR,
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

__all__ = ["ClientSide", "Offer"]

DEFAULT_OFFER = Offer()

_UNNAMED = frozenset(["session/new", "session/fork"])
"""Requests whose answer names the session."""
_QUIET = frozenset(
    ["authenticate", "logout", "session/close", "session/delete", "session/set_mode", "session/set_model"]
)
"""Requests whose answer says no more than that it is done."""
_SHOWN = 200


class ClientSide(Answers):
    """The client of one agent, for all of its sessions."""

    def __init__(self, offer: Offer = DEFAULT_OFFER, *, limit: int = LIMIT) -> None:
        super().__init__(Peer(limit=limit))
        self._offer = offer
        self._readers = readers(offer)
        self._sessions = Sessions()
        self._about: dict[int, str] = {}
        """The session that a request of ours is about."""
        self._opening: set[int] = set()
        """The requests whose answer will name a session."""

    # ── what we ask ──

    def initialize(self, name: str, version: str, title: str | None = None) -> int:
        """Introduce ourselves; → Initialized."""
        info = schema.Implementation(name=name, version=version, title=title)
        params = schema.InitializeParams(
            protocol_version=schema.VERSION, client_capabilities=self._offer.capabilities(), client_info=info
        )
        return self._ask("initialize", params)

    def authenticate(self, login: str) -> int:
        """Have the agent log in, by the id of one of its logins; → Done."""
        return self._ask("authenticate", schema.AuthenticateParams(method_id=login))

    def logout(self) -> int:
        """→ Done."""
        return self._ask("logout", schema.HERE)

    def new_session(self, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()) -> int:
        """Open a session in a folder, with MCP servers that the agent may use; → SessionOpened."""
        params = schema.NewSessionParams(
            cwd=cwd, mcp_servers=list(servers), additional_directories=list(directories) or None
        )
        request = self._ask("session/new", params)
        self._opening.add(request)
        return request

    def load_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Take up a session of before, and have its history told; → SessionOpened."""
        return self._open_known("session/load", session, cwd, servers, directories)

    def resume_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Take up a session of before without its history; → SessionOpened."""
        return self._open_known("session/resume", session, cwd, servers, directories)

    def fork_session(
        self, session: str, cwd: str, servers: Sequence[schema.McpServer] = (), directories: Sequence[str] = ()
    ) -> int:
        """Open a session that begins like another; → SessionOpened."""
        request = self._open_known("session/fork", session, cwd, servers, directories)
        self._opening.add(request)
        return request

    def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> int:
        """→ SessionsListed."""
        return self._ask("session/list", schema.ListSessionsParams(cwd=cwd, cursor=cursor))

    def close_session(self, session: str) -> int:
        """→ Done."""
        return self._ask("session/close", schema.SessionParams(session_id=session), session)

    def delete_session(self, session: str) -> int:
        """→ Done."""
        return self._ask("session/delete", schema.SessionParams(session_id=session), session)

    def set_mode(self, session: str, mode: str) -> int:
        """→ Done."""
        return self._ask("session/set_mode", schema.SetModeParams(session_id=session, mode_id=mode), session)

    def set_model(self, session: str, model: str) -> int:
        """For agents that offer models but no option of the category `model`; → Done."""
        return self._ask("session/set_model", schema.SetModelParams(session_id=session, model_id=model), session)

    def set_option(self, session: str, option: str, value: str | bool) -> int:
        """→ OptionsChanged, Done."""
        kind = "boolean" if isinstance(value, bool) else None
        params = schema.SetConfigOptionParams(session_id=session, config_id=option, value=value, type=kind)
        return self._ask("session/set_config_option", params, session)

    def prompt(self, session: str, blocks: Sequence[schema.Block]) -> int:
        """Begin a turn; → TurnEnded, after all that happens in it. One turn at a time: not every agent takes more."""
        request = self._ask("session/prompt", schema.PromptParams(session_id=session, prompt=list(blocks)), session)
        self._sessions.open(session).turn = request
        return request

    def cancel(self, session: str) -> list[int]:
        """End a turn; what a person was asked in it is answered as cancelled and returned. → TurnEnded."""
        known = self._sessions.open(session)
        known.is_cancelling = known.turn is not None
        self._peer.notify("session/cancel", schema.SessionParams(session_id=session))
        return self._withdraw_all(session)

    def forget_session(self, session: str) -> None:
        """Remember nothing of a session: one that is not used any more, of an agent that cannot close any."""
        self._withdraw_all(session)
        self._sessions.forget(session)

    def call(self, method: str, params: Any = None) -> int:
        """Ask for something that this protocol does not define; → Answered."""
        return self._ask(method, params)

    def give_up(self, request: int) -> None:
        """Nobody waits for this answer any more; the agent is told so and nothing comes of it."""
        self._peer.forget(request)
        self._opening.discard(request)
        self._peer.notify("$/cancel_request", schema.CancelRequestParams(request_id=request))
        session = self._sessions.get(self._about.pop(request, ""))
        if session is not None and session.turn == request:
            session.end_turn()

    def outbox(self) -> bytes:
        """What is to be sent now; it is taken out."""
        return self._peer.outbox()

    # ── what we learn ──

    def feed(self, data: bytes) -> list[Fact]:
        """What the agent's next bytes mean."""
        found: list[Fact] = []
        for item in self._peer.feed(data):
            found += self._receive(item)
        return found

    def close(self, reason: str) -> list[Fact]:
        """The agent has ended: what was asked of it is refused for this reason, and nothing is to be answered."""
        found: list[Fact] = []
        for item in self._peer.close():
            found += self._receive(item)
        found += [facts.Withdrawn(ask=ask) for ask in self._open]
        self._open.clear()
        for request, method in self._peer.pending.items():
            self._peer.forget(request)
            found += self._refused(Response(request, method, Raw(b"null"), RpcError(INTERNAL_ERROR, reason)))
        self._peer.outbox()
        return found

    def _receive(self, item: Incoming) -> list[Fact]:
        match item:
            case Notification():
                return self._told(item)
            case Request():
                return self._asked(item)
            case Response(error=None):
                return self._answered(item)
            case Response():
                return self._refused(item)
            case Skipped(reason, beginning):
                return [facts.Stray(reason=reason, beginning=beginning)]

    # ── answers to what we asked ──

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
        return [facts.Answered(request=request, method=method, result=_text(result))]

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
            found += [facts.Withdrawn(ask=ask) for ask in self._withdraw_all(session)]
            self._sessions.forget(session)
        elif answer.method == "session/set_config_option":
            said = decode(schema.SetConfigOptionResult, answer.result)
            if said is not None and said.config_options:
                found.append(facts.OptionsChanged(session=session, options=options_of(said.config_options)))
        return [*found, facts.Done(request=answer.id, method=answer.method, session=session)]

    def _refused(self, answer: Response) -> list[Fact]:
        session = self._about.pop(answer.id, "")
        error = answer.error or RpcError(INTERNAL_ERROR, "refused")
        known = self._sessions.get(session)
        was_cancelled = known is not None and known.turn == answer.id and known.is_cancelling
        found = self._end_turn(session, answer.id)
        if was_cancelled:
            end = StopReason.CANCELLED
            return [*found, facts.TurnEnded(request=answer.id, session=session, reason=end, said=error.message)]
        refused = facts.Refused(
            request=answer.id,
            method=answer.method,
            session=session,
            code=error.code,
            message=error.message,
            data=error.data.decode("utf-8", "replace"),
        )
        return [*found, refused, *self._not_opened(answer, session)]

    def _not_opened(self, answer: Response, session: str) -> list[Fact]:
        """A session that was asked for will not be there, unless it was before."""
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
        return [facts.Withdrawn(ask=ask) for ask in self._withdraw_all(session)]

    def _release(self) -> list[Fact]:
        return self._sessions.release(is_opening=bool(self._opening))

    # ── what the agent tells and asks ──

    def _told(self, told: Notification) -> list[Fact]:
        if told.method == "session/update":
            return self._sessions.update(told.params, is_opening=bool(self._opening))
        if told.method == "$/cancel_request":
            return self._changed_its_mind(told.params)
        if told.method == "elicitation/complete":
            said = decode(schema.ElicitationCompleteParams, told.params)
            return [facts.QuestionCompleted(elicitation=said.elicitation_id)] if said else []
        if told.method == extensions.UPDATE_TODOS:
            todos = decode(extensions.UpdateTodosParams, told.params)
            return [self._sessions.find(todos.session_id, todos.tool_call_id).todos(todos)] if todos else []
        return [facts.Notified(method=told.method, params=_text(told.params))]

    def _changed_its_mind(self, params: Raw) -> list[Fact]:
        named = decode(schema.CancelledRequest, params)
        asks = self._peer.asks_of(named.request_id) if named else []
        return [facts.Withdrawn(ask=ask) for ask in asks if self._withdraw(ask)]

    def _asked(self, asked: Request) -> list[Fact]:
        if asked.method in ("session/update", extensions.UPDATE_TODOS):
            # Not meant to be asked, but whoever does waits.
            self._peer.result(asked.ask, schema.HERE)
            return self._told(Notification(asked.method, asked.params))
        reader = self._readers.get(asked.method)
        if reader is None:
            return [self._unknown(asked)]
        reading = reader(asked, self._sessions)
        if reading is None:
            self._peer.error(asked.ask, INVALID_PARAMS, "the parameters are not those of this method")
            return [facts.UnknownAsked(method=asked.method, reason="its parameters cannot be read")]
        fact, opened = reading
        self._register(asked.ask, opened)
        session = self._sessions.get(opened.session)
        if opened.kind in HUMAN and session is not None and session.is_cancelling:
            # It was on its way when we cancelled: nobody needs to see it.
            self._withdraw(asked.ask)
            return []
        return [fact]

    def _unknown(self, asked: Request) -> Fact:
        if asked.method.startswith(extensions.PREFIX):
            # Told that a method is unknown, this agent waits for ever.
            self._peer.result(asked.ask, schema.HERE)
            return facts.UnknownAsked(method=asked.method, reason="it means nothing here")
        self._peer.error(asked.ask, METHOD_NOT_FOUND, f"{asked.method} is not offered by this client")
        return facts.UnknownAsked(method=asked.method, reason="it is not offered")

    # ── asking ──

    def _ask(self, method: str, params: Any, session: str = "") -> int:
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
        return self._ask(method, params, session)


def _unreadable(answer: Response) -> Fact:
    message = f"the agent's answer to {answer.method} cannot be read: {_text(answer.result)[:_SHOWN]}"
    return facts.Refused(request=answer.id, method=answer.method, code=INTERNAL_ERROR, message=message)


def _text(json: Raw) -> str:
    return bytes(json).decode("utf-8", "replace")
