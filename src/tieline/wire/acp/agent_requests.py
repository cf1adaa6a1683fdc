"""Convert requests from an agent to facts, if the client supports them, and the client's answers to JSON-RPC results.

Each request is answered once. Every method that answers a request returns whether the request was still open. It may
have been withdrawn while a person was deciding, because the turn was cancelled or the agent no longer needs an answer.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from tieline.model.content import Value
from tieline.wire.acp import extensions, facts, schema, updates
from tieline.wire.acp.facts import Fact, PermissionOption
from tieline.wire.acp.questions import (
    Action,
    Content,
    choice_fields,
    choice_result,
    form_fields,
    form_result,
    label_fields,
    label_result,
)
from tieline.wire.acp.session import todo_entries
from tieline.wire.acp.sessions import ClientSessions
from tieline.wire.framing.jsonrpc import INTERNAL_ERROR, REQUEST_CANCELLED, IncomingRequest, JsonRpcPeer
from tieline.wire.shared.lenient import decode

Use = Literal["output", "wait", "kill", "release"]
Kind = Literal["permission", "question", "plan", "read", "create", "output", "wait", "done"]
Spell = Callable[[Action, Content], schema.AcpShape]

PERSON_KINDS: frozenset[Kind] = frozenset(["permission", "question", "plan"])
"""The kinds of requests that only a person can answer. At the end of a turn, those still open are cancelled."""

_CANCELLED = schema.PermissionResult(outcome=schema.PermissionOutcome(outcome="cancelled"))
_NOTHING: Content = {}


class ClientOffer(Value):
    """The capabilities that a client offers to an agent. File access and terminals are off by default."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    forms: bool = True
    urls: bool = True
    terminal_login: bool = True
    """Whether the user can run a command in a terminal to log in."""
    shown_terminals: bool = True
    """Whether the client can show the output of the agent's own terminals.

    If it can, some agents report the output only as terminal output, not in the content of the tool call.
    """

    def capabilities(self) -> schema.ClientCapabilities:
        """Return the capabilities for `initialize`. Notices and compaction are always included."""
        files = schema.FileSystemCapabilities(read_text_file=self.read_files, write_text_file=self.write_files)
        elicitation = schema.ElicitationCapabilities(
            form=schema.PRESENT if self.forms else None, url=schema.PRESENT if self.urls else None
        )
        return schema.ClientCapabilities(
            fs=files if self.read_files or self.write_files else None,
            terminal=self.terminals,
            session=schema.ClientSessionCapabilities(
                config_options=schema.ConfigOptionCapabilities(boolean=schema.PRESENT),
                notices=schema.PRESENT,
                compaction=schema.PRESENT,
            ),
            auth=schema.ClientAuthCapabilities(terminal=True) if self.terminal_login else None,
            elicitation=elicitation if self.forms or self.urls else None,
            meta=self._meta() or None,
        )

    def _meta(self) -> dict[str, Any]:
        """Return the capabilities that the protocol does not define, for `_meta`."""
        meta: dict[str, Any] = {}
        if self.shown_terminals:
            meta |= {"terminal_output": True, "terminal_output_delta": True}
        if self.terminal_login:
            meta["terminal-auth"] = True
        return meta


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


class OpenRequest(NamedTuple):
    """An unanswered request from the agent. For a question, `spell` converts the answer to the result."""

    kind: Kind
    session: str
    options: tuple[PermissionOption, ...] = ()
    spell: Spell | None = None


class RequestReading(NamedTuple):
    """The fact for a request from the agent, and the record that is kept until the request is answered."""

    fact: Fact
    opened: OpenRequest


Reader = Callable[[IncomingRequest, ClientSessions], RequestReading | None]
"""A function that converts a request from the agent to a fact. It returns None if the parameters are invalid."""


def readers(offer: ClientOffer) -> dict[str, Reader]:
    """Return a reader for each request that `offer` allows the agent to send, by method."""
    found: dict[str, Reader] = {
        "session/request_permission": _permission,
        extensions.ASK_QUESTION: _choices,
        extensions.CREATE_PLAN: _plan,
    }
    if offer.forms or offer.urls:
        found["elicitation/create"] = partial(_elicitation, offer)
    if offer.read_files:
        found["fs/read_text_file"] = _read_file
    if offer.write_files:
        found["fs/write_text_file"] = _write_file
    if offer.terminals:
        found["terminal/create"] = _create_terminal
        found |= dict.fromkeys(_USES, _use_terminal)
    return found


def _permission(request: IncomingRequest, sessions: ClientSessions) -> RequestReading | None:
    params = decode(updates.PermissionParams, request.params)
    if params is None:
        return None
    session = sessions.find(params.session_id)
    call = session.calls.merge_request(params.tool_call)
    options = tuple(
        PermissionOption(id=option.option_id, name=option.name, kind=option.kind) for option in params.options
    )
    fields = label_fields(params.tool_call) if params.tool_call.meta is not None else ()
    if not fields:
        permission = facts.PermissionRequested(number=request.number, session=session.name, call=call, options=options)
        return RequestReading(permission, OpenRequest("permission", session.name, options))
    question = facts.QuestionAsked(
        number=request.number, session=session.name, message=call.title, fields=fields, call=call.id
    )
    opened = OpenRequest("question", session.name, spell=lambda action, content: label_result(options, action, content))
    return RequestReading(question, opened)


def _elicitation(offer: ClientOffer, request: IncomingRequest, sessions: ClientSessions) -> RequestReading | None:
    params = decode(schema.ElicitationParams, request.params)
    if params is None or not (offer.urls if params.url else offer.forms):
        return None
    session = sessions.find(params.session_id or "", params.tool_call_id or "")
    question = facts.QuestionAsked(
        number=request.number,
        session=session.name,
        message=params.message,
        fields=form_fields(params.requested_schema),
        url=params.url or "",
        elicitation=params.elicitation_id or "",
        call=params.tool_call_id or "",
    )
    return RequestReading(question, OpenRequest("question", session.name, spell=form_result))


def _choices(request: IncomingRequest, sessions: ClientSessions) -> RequestReading | None:
    params = decode(extensions.AskQuestionParams, request.params)
    if params is None:
        return None
    session = sessions.find(params.session_id, params.tool_call_id)
    question = facts.QuestionAsked(
        number=request.number,
        session=session.name,
        message=params.title or "",
        fields=choice_fields(params.questions),
        call=params.tool_call_id,
    )
    return RequestReading(question, OpenRequest("question", session.name, spell=choice_result))


def _plan(request: IncomingRequest, sessions: ClientSessions) -> RequestReading | None:
    params = decode(extensions.CreatePlanParams, request.params)
    if params is None:
        return None
    session = sessions.find(params.session_id, params.tool_call_id)
    proposed = facts.PlanProposed(
        number=request.number,
        session=session.name,
        plan=params.plan,
        name=params.name or "",
        overview=params.overview or "",
        entries=todo_entries(params.todos or []),
        call=params.tool_call_id,
    )
    return RequestReading(proposed, OpenRequest("plan", session.name))


def _read_file(request: IncomingRequest, _: ClientSessions) -> RequestReading | None:
    params = decode(schema.ReadFileParams, request.params)
    if params is None:
        return None
    fact = facts.FileReadRequested(
        number=request.number, session=params.session_id, path=params.path, line=params.line, limit=params.limit
    )
    return RequestReading(fact, OpenRequest("read", params.session_id))


def _write_file(request: IncomingRequest, _: ClientSessions) -> RequestReading | None:
    params = decode(schema.WriteFileParams, request.params)
    if params is None:
        return None
    fact = facts.FileWriteRequested(
        number=request.number, session=params.session_id, path=params.path, content=params.content
    )
    return RequestReading(fact, OpenRequest("done", params.session_id))


def _create_terminal(request: IncomingRequest, _: ClientSessions) -> RequestReading | None:
    params = decode(schema.CreateTerminalParams, request.params)
    if params is None:
        return None
    fact = facts.TerminalRequested(
        number=request.number,
        session=params.session_id,
        command=params.command,
        args=tuple(params.args or ()),
        env=tuple((one.name, one.value) for one in params.env or ()),
        cwd=params.cwd,
        limit=params.output_byte_limit,
    )
    return RequestReading(fact, OpenRequest("create", params.session_id))


def _use_terminal(request: IncomingRequest, _: ClientSessions) -> RequestReading | None:
    params = decode(schema.TerminalParams, request.params)
    if params is None:
        return None
    use, kind = _USES[request.method]
    fact = facts.TerminalUseRequested(
        number=request.number, session=params.session_id, terminal=params.terminal_id, use=use
    )
    return RequestReading(fact, OpenRequest(kind, params.session_id))


_USES: dict[str, tuple[Use, Kind]] = {
    "terminal/output": ("output", "output"),
    "terminal/wait_for_exit": ("wait", "wait"),
    "terminal/kill": ("kill", "done"),
    "terminal/release": ("release", "done"),
}


# ── Answering ────────────────────────────────────────────────────────────────────────────────────


class AgentRequestAnswers:
    """The open requests from one agent, and the methods that answer them.

    A method raises ValueError if it does not fit the kind of the request.
    """

    def __init__(self, peer: JsonRpcPeer) -> None:
        self._peer = peer
        self._open: dict[int, OpenRequest] = {}

    @property
    def open_requests(self) -> Mapping[int, str]:
        """The kinds of the open requests, by number."""
        return {number: opened.kind for number, opened in self._open.items()}

    def answer_permission(self, number: int, option: str | None) -> bool:
        """Answer a permission request with the id of an option, or as cancelled if `option` is None.

        Return whether the request was still open. Raise ValueError if there is no option with this id.
        """
        opened = self._take(number, "permission")
        if opened is None:
            return False
        if option is None:
            return self._peer.result(number, _CANCELLED)
        if option not in {offered.id for offered in opened.options}:
            self._open[number] = opened
            raise ValueError(f"{option!r} is not one of the offered options")
        outcome = schema.PermissionOutcome(outcome="selected", option_id=option)
        return self._peer.result(number, schema.PermissionResult(outcome=outcome))

    def answer_question(self, number: int, action: Action, content: Content = _NOTHING) -> bool:
        """Answer a question: accept it, decline it or cancel it. Return whether it was still open.

        `content` contains the values by field name, if the question is accepted.
        """
        opened = self._take(number, "question")
        if opened is None or opened.spell is None:
            return False
        return self._peer.result(number, opened.spell(action, content))

    def answer_plan(self, number: int, verdict: Literal["accepted", "rejected", "cancelled"], reason: str = "") -> bool:
        """Answer a proposed plan with `verdict` and an optional reason. Return whether the request was still open."""
        if self._take(number, "plan") is None:
            return False
        outcome = extensions.OutcomeShape(outcome=verdict, reason=reason or None)
        return self._peer.result(number, extensions.OutcomeResult(outcome=outcome))

    def answer_file(self, number: int, content: str) -> bool:
        """Answer a request to read a file: send its content. Return whether the request was still open.

        Pass an empty text for a missing file, because agents read a file before they create it.
        """
        return self._answer(number, "read", schema.ReadFileResult(content=content))

    def answer_terminal(self, number: int, terminal: str) -> bool:
        """Answer a request to start a command: send its terminal's id. Return whether the request was still open."""
        return self._answer(number, "create", schema.CreateTerminalResult(terminal_id=terminal))

    def answer_output(self, number: int, output: str, truncated: bool, ended: schema.ExitStatus | None = None) -> bool:
        """Answer a request for a terminal's output: send the output so far. Return whether the request was still open.

        `ended` is the exit status of the command; None if the command is still running.
        """
        result = schema.TerminalOutputResult(output=output, truncated=truncated, exit_status=ended)
        return self._answer(number, "output", result)

    def answer_exit(self, number: int, ended: schema.ExitStatus) -> bool:
        """Answer a request to wait until a terminal's command has ended. Return whether the request was still open."""
        return self._answer(number, "wait", ended)

    def answer_done(self, number: int) -> bool:
        """Confirm a file write, or the kill or release of a terminal. Return whether the request was still open."""
        return self._answer(number, "done", schema.PRESENT)

    def refuse(self, number: int, message: str, code: int = INTERNAL_ERROR) -> bool:
        """Answer a request of any kind with an error. Return whether the request was still open."""
        self._open.pop(number, None)
        return self._peer.error(number, code, message)

    # ── for the client side ──

    def _register(self, number: int, opened: OpenRequest) -> None:
        self._open[number] = opened

    def _withdraw(self, number: int) -> bool:
        """Tell the agent that its request was cancelled. Return whether the request was still open."""
        opened = self._open.pop(number, None)
        if opened is None:
            return False
        if opened.kind == "permission":
            return self._peer.result(number, _CANCELLED)
        if opened.kind == "plan":
            return self._peer.result(
                number, extensions.OutcomeResult(outcome=extensions.OutcomeShape(outcome="cancelled"))
            )
        if opened.spell is not None:
            return self._peer.result(number, opened.spell("cancel", _NOTHING))
        return self._peer.error(number, REQUEST_CANCELLED, "cancelled")

    def _withdraw_all(self, session: str) -> list[int]:
        """Cancel a session's open requests that wait for a person, and return their numbers."""
        numbers = [
            number for number, opened in self._open.items() if opened.session == session and opened.kind in PERSON_KINDS
        ]
        return [number for number in numbers if self._withdraw(number)]

    def _answer(self, number: int, kind: Kind, result: Any) -> bool:
        return self._take(number, kind) is not None and self._peer.result(number, result)

    def _take(self, number: int, kind: Kind) -> OpenRequest | None:
        opened = self._open.get(number)
        if opened is None:
            return None
        if opened.kind != kind:
            raise ValueError(f"the request is of kind {opened.kind!r}, not {kind!r}")
        return self._open.pop(number)
