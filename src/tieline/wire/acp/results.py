"""Convert the results of the client's requests, as received from the agent, to facts."""

from typing import Literal

from msgspec import Raw

from tieline.model.events import StopReason, Usage
from tieline.wire.acp import facts, schema
from tieline.wire.acp.session import options_of
from tieline.wire.shared.lenient import decode

How = Literal["new", "load", "resume", "fork"]

HOW: dict[str, How] = {
    "session/new": "new",
    "session/load": "load",
    "session/resume": "resume",
    "session/fork": "fork",
}
"""The methods that open a session, and the value of `SessionOpened.how` for each."""

_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "max_turn_requests": StopReason.PAUSED,
    "refusal": StopReason.REFUSAL,
    "cancelled": StopReason.CANCELLED,
}


def initialized(request: int, result: Raw) -> facts.Initialized | None:
    """Convert the result of `initialize` to a fact. Return None if it cannot be read."""
    parsed = decode(schema.InitializeResult, result)
    if parsed is None:
        return None
    agent = parsed.agent_info or schema.Implementation(name="", version="")
    return facts.Initialized(
        request=request,
        version=parsed.protocol_version,
        name=agent.name,
        title=agent.title or "",
        agent_version=agent.version,
        abilities=_abilities(parsed.agent_capabilities or schema.AgentCapabilities()),
        logins=tuple(_login(method) for method in parsed.auth_methods or []),
    )


def opened(request: int, how: How, session: str, result: Raw) -> facts.SessionOpened | None:
    """Convert the result of a request that opened a session to a fact. Return None if the session has no name.

    `session` is the name in the client's request; empty if the agent chose a name, which is in the result.
    """
    parsed = decode(schema.SessionResult, result) or schema.SessionResult()
    name = parsed.session_id or session
    if not name:
        return None
    return facts.SessionOpened(
        request=request,
        session=name,
        how=how,
        modes=_modes(parsed.modes),
        models=_models(parsed.models),
        options=options_of(parsed.config_options),
    )


def listed(request: int, result: Raw) -> facts.SessionsListed:
    """Convert the result of `session/list` to a fact. An unreadable result counts as an empty list."""
    parsed = decode(schema.ListSessionsResult, result) or schema.ListSessionsResult(sessions=[])
    return facts.SessionsListed(
        request=request,
        sessions=tuple(
            facts.SessionInfo(
                session=one.session_id, cwd=one.cwd, title=one.title or "", updated_at=one.updated_at or ""
            )
            for one in parsed.sessions
            if one.session_id
        ),
        cursor=parsed.next_cursor,
    )


def turn_ended(request: int, session: str, result: Raw) -> facts.TurnEnded:
    """Convert the result of a prompt to a fact. Any result ends the turn, even an unreadable one."""
    parsed = decode(schema.PromptResult, result) or schema.PromptResult(stop_reason="")
    reason = _REASONS.get(parsed.stop_reason, StopReason.END_TURN)
    return facts.TurnEnded(
        request=request, session=session, reason=reason, stop_reason=parsed.stop_reason, usage=_usage_of(parsed)
    )


def _usage_of(parsed: schema.PromptResult) -> Usage | None:
    """Return the usage of a turn; None if all counts are zero, which means that the agent does not count tokens."""
    usage = _usage(parsed.usage) if parsed.usage is not None else Usage()
    if parsed.meta is not None and parsed.meta.quota is not None and parsed.meta.quota.token_count is not None:
        count = parsed.meta.quota.token_count
        usage = usage if usage.prompt else Usage(input=count.input_tokens, output=count.output_tokens)
    return usage if usage.prompt or usage.output else None


def _usage(counts: schema.TokenUsage) -> Usage:
    """Convert token counts.

    For some agents, the input includes cached tokens, or the output excludes thoughts. The total shows which convention
    the agent follows.
    """
    read_, written = counts.cached_read_tokens or 0, counts.cached_write_tokens or 0
    cached, thoughts = read_ + written, counts.thought_tokens or 0
    input_, output = counts.input_tokens, counts.output_tokens
    rest = counts.total_tokens - input_ - output
    if thoughts and rest in (thoughts, thoughts + cached):
        output += thoughts
    if cached and rest in (0, thoughts):
        input_ = max(0, input_ - cached)
    return Usage(input=input_, output=output, cache_read=read_, cache_write=written, reasoning=thoughts)


def _abilities(parsed: schema.AgentCapabilities) -> facts.Abilities:
    prompt = parsed.prompt_capabilities or schema.PromptCapabilities()
    mcp = parsed.mcp_capabilities or schema.McpCapabilities()
    session = parsed.session_capabilities or schema.SessionCapabilities()
    return facts.Abilities(
        load=parsed.load_session,
        resume=_is_there(session.resume),
        fork=_is_there(session.fork),
        list=_is_there(session.list),
        close=_is_there(session.close),
        delete=_is_there(session.delete),
        logout=parsed.auth is not None and _is_there(parsed.auth.logout),
        directories=_is_there(session.additional_directories),
        mcp_http=mcp.http,
        mcp_sse=mcp.sse,
        image=prompt.image,
        audio=prompt.audio,
        embedded=prompt.embedded_context,
    )


def _is_there(capability: object) -> bool:
    """Return whether a capability is offered. An empty object means yes; null and false mean no."""
    return capability is not None and capability is not False


def _login(method: schema.AuthMethod) -> facts.LoginMethod:
    older = method.meta.terminal if method.meta else None
    env = (older.env if older else None) or method.env or {}
    return facts.LoginMethod(
        id=method.id,
        name=method.name,
        description=method.description or "",
        arguments=tuple(method.args or ()) if method.type == "terminal" else None,
        command=(older.command, *(older.args or ())) if older and older.command else None,
        env=tuple(env.items()),
    )


def _modes(parsed: schema.ModeState | None) -> facts.Choices | None:
    if parsed is None:
        return None
    modes = tuple(
        facts.NamedChoice(id=mode.id, name=mode.name, description=mode.description or "")
        for mode in parsed.available_modes
    )
    return facts.Choices(current=parsed.current_mode_id, choices=modes)


def _models(parsed: schema.ModelState | None) -> facts.Choices | None:
    if parsed is None:
        return None
    models = tuple(
        facts.NamedChoice(id=model.model_id, name=model.name, description=model.description or "")
        for model in parsed.available_models
    )
    return facts.Choices(current=parsed.current_model_id, choices=models)
