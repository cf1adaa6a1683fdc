"""What an agent may ask of a client, read into facts; what we did not offer is not among it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from tieline.model.content import Value
from tieline.wire.acp import extensions, facts, schema, updates
from tieline.wire.acp.answers import Kind, OpenAsk
from tieline.wire.acp.facts import Fact
from tieline.wire.acp.questions import (
    choice_fields,
    choice_result,
    form_fields,
    form_result,
    label_fields,
    label_result,
)
from tieline.wire.acp.session import todo_entries
from tieline.wire.acp.sessions import Sessions
from tieline.wire.framing.jsonrpc import Request
from tieline.wire.shared.lenient import decode

Use = Literal["output", "wait", "kill", "release"]


class Offer(Value):
    """What we can do for an agent. Files and terminals are off unless somebody wants the agent to work through us."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    forms: bool = True
    urls: bool = True
    terminal_login: bool = True
    """Whether a person can be told to run a command to log in."""
    shown_terminals: bool = True
    """Whether terminals of the agent's own can be shown; an agent that is told so writes its output nowhere else."""

    def capabilities(self) -> schema.ClientCapabilities:
        """The same as the agent is told. Notices and the like are only to be read, so they are always welcome."""
        files = schema.FileSystemCapabilities(read_text_file=self.read_files, write_text_file=self.write_files)
        asking = schema.ElicitationCapabilities(
            form=schema.HERE if self.forms else None, url=schema.HERE if self.urls else None
        )
        return schema.ClientCapabilities(
            fs=files if self.read_files or self.write_files else None,
            terminal=self.terminals,
            session=schema.ClientSessionCapabilities(
                config_options=schema.ConfigOptionCapabilities(boolean=schema.HERE),
                notices=schema.HERE,
                compaction=schema.HERE,
            ),
            auth=schema.ClientAuthCapabilities(terminal=True) if self.terminal_login else None,
            elicitation=asking if self.forms or self.urls else None,
            meta=self._meta() or None,
        )

    def _meta(self) -> dict[str, Any]:
        """What the protocol has no words for."""
        said: dict[str, Any] = {}
        if self.shown_terminals:
            said |= {"terminal_output": True, "terminal_output_delta": True}
        if self.terminal_login:
            said["terminal-auth"] = True
        return said


class Reading(NamedTuple):
    """A fact, and what is open until it is answered."""

    fact: Fact
    opened: OpenAsk


Reader = Callable[[Request, Sessions], Reading | None]
"""None means that the parameters make no sense."""


def readers(offer: Offer) -> dict[str, Reader]:
    """How to read what we have offered to be asked, by method."""
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


def _permission(asked: Request, sessions: Sessions) -> Reading | None:
    params = decode(updates.PermissionParams, asked.params)
    if params is None:
        return None
    session = sessions.find(params.session_id)
    call = session.calls.asked(params.tool_call)
    options = tuple(
        facts.PermissionOption(id=option.option_id, name=option.name, kind=option.kind) for option in params.options
    )
    fields = label_fields(params.tool_call)
    if not fields:
        permission = facts.PermissionAsked(ask=asked.ask, session=session.name, call=call, options=options)
        return Reading(permission, OpenAsk("permission", session.name, options))
    question = facts.QuestionAsked(ask=asked.ask, session=session.name, message=call.title, fields=fields, call=call.id)
    opened = OpenAsk("question", session.name, spell=lambda action, said: label_result(options, action, said))
    return Reading(question, opened)


def _elicitation(offer: Offer, asked: Request, sessions: Sessions) -> Reading | None:
    params = decode(schema.ElicitationParams, asked.params)
    if params is None or not (offer.urls if params.url else offer.forms):
        return None
    session = sessions.find(params.session_id or "", params.tool_call_id or "")
    question = facts.QuestionAsked(
        ask=asked.ask,
        session=session.name,
        message=params.message,
        fields=form_fields(params.requested_schema),
        url=params.url or "",
        elicitation=params.elicitation_id or "",
        call=params.tool_call_id or "",
    )
    return Reading(question, OpenAsk("question", session.name, spell=form_result))


def _choices(asked: Request, sessions: Sessions) -> Reading | None:
    params = decode(extensions.AskQuestionParams, asked.params)
    if params is None:
        return None
    session = sessions.find(params.session_id, params.tool_call_id)
    question = facts.QuestionAsked(
        ask=asked.ask,
        session=session.name,
        message=params.title or "",
        fields=choice_fields(params.questions),
        call=params.tool_call_id,
    )
    return Reading(question, OpenAsk("question", session.name, spell=choice_result))


def _plan(asked: Request, sessions: Sessions) -> Reading | None:
    params = decode(extensions.CreatePlanParams, asked.params)
    if params is None:
        return None
    session = sessions.find(params.session_id, params.tool_call_id)
    proposed = facts.PlanProposed(
        ask=asked.ask,
        session=session.name,
        plan=params.plan,
        name=params.name or "",
        overview=params.overview or "",
        entries=todo_entries(params.todos or []),
        call=params.tool_call_id,
    )
    return Reading(proposed, OpenAsk("plan", session.name))


def _read_file(asked: Request, _: Sessions) -> Reading | None:
    params = decode(schema.ReadFileParams, asked.params)
    if params is None:
        return None
    fact = facts.FileReadAsked(
        ask=asked.ask, session=params.session_id, path=params.path, line=params.line, limit=params.limit
    )
    return Reading(fact, OpenAsk("read", params.session_id))


def _write_file(asked: Request, _: Sessions) -> Reading | None:
    params = decode(schema.WriteFileParams, asked.params)
    if params is None:
        return None
    fact = facts.FileWriteAsked(ask=asked.ask, session=params.session_id, path=params.path, content=params.content)
    return Reading(fact, OpenAsk("done", params.session_id))


def _create_terminal(asked: Request, _: Sessions) -> Reading | None:
    params = decode(schema.CreateTerminalParams, asked.params)
    if params is None:
        return None
    fact = facts.TerminalAsked(
        ask=asked.ask,
        session=params.session_id,
        command=params.command,
        args=tuple(params.args or ()),
        env=tuple((one.name, one.value) for one in params.env or ()),
        cwd=params.cwd,
        limit=params.output_byte_limit,
    )
    return Reading(fact, OpenAsk("create", params.session_id))


def _use_terminal(asked: Request, _: Sessions) -> Reading | None:
    params = decode(schema.TerminalParams, asked.params)
    if params is None:
        return None
    use, kind = _USES[asked.method]
    fact = facts.TerminalUseAsked(ask=asked.ask, session=params.session_id, terminal=params.terminal_id, use=use)
    return Reading(fact, OpenAsk(kind, params.session_id))


_USES: dict[str, tuple[Use, Kind]] = {
    "terminal/output": ("output", "output"),
    "terminal/wait_for_exit": ("wait", "wait"),
    "terminal/kill": ("kill", "done"),
    "terminal/release": ("release", "done"),
}
