"""What an agent's answers to a client's requests mean."""

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
"""The requests that open a session."""

_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "max_turn_requests": StopReason.PAUSED,
    "refusal": StopReason.REFUSAL,
    "cancelled": StopReason.CANCELLED,
}


def initialized(request: int, result: Raw) -> facts.Initialized | None:
    """What an agent says of itself; None if that cannot be read."""
    said = decode(schema.InitializeResult, result)
    if said is None:
        return None
    agent = said.agent_info or schema.Implementation(name="", version="")
    return facts.Initialized(
        request=request,
        version=said.protocol_version,
        name=agent.name,
        title=agent.title or "",
        agent_version=agent.version,
        abilities=_abilities(said.agent_capabilities or schema.AgentCapabilities()),
        logins=tuple(_login(method) for method in said.auth_methods or []),
    )


def opened(request: int, how: How, session: str, result: Raw) -> facts.SessionOpened | None:
    """A session that was asked for; `session` is its name if that is known already. None without a name."""
    said = decode(schema.SessionResult, result) or schema.SessionResult()
    name = said.session_id or session
    if not name:
        return None
    return facts.SessionOpened(
        request=request,
        session=name,
        how=how,
        modes=_modes(said.modes),
        models=_models(said.models),
        options=options_of(said.config_options),
    )


def listed(request: int, result: Raw) -> facts.SessionsListed:
    """The sessions an agent remembers; an agent that answers null remembers none."""
    said = decode(schema.ListSessionsResult, result) or schema.ListSessionsResult(sessions=[])
    return facts.SessionsListed(
        request=request,
        sessions=tuple(
            facts.SessionInfo(
                session=one.session_id, cwd=one.cwd, title=one.title or "", updated_at=one.updated_at or ""
            )
            for one in said.sessions
            if one.session_id
        ),
        cursor=said.next_cursor,
    )


def turn_ended(request: int, session: str, result: Raw) -> facts.TurnEnded:
    """The end of a turn, whatever is said of it: a turn that has an answer has ended."""
    said = decode(schema.PromptResult, result) or schema.PromptResult(stop_reason="")
    reason = _REASONS.get(said.stop_reason, StopReason.END_TURN)
    return facts.TurnEnded(
        request=request, session=session, reason=reason, said=said.stop_reason, usage=_usage_of(said)
    )


def _usage_of(said: schema.PromptResult) -> Usage | None:
    """What a turn cost; nothing at all is what agents say that do not count."""
    usage = _usage(said.usage) if said.usage is not None else Usage()
    if said.meta is not None and said.meta.quota is not None and said.meta.quota.token_count is not None:
        count = said.meta.quota.token_count
        usage = usage if usage.prompt else Usage(input=count.input_tokens, output=count.output_tokens)
    return usage if usage.prompt or usage.output else None


def _usage(told: schema.TokenUsage) -> Usage:
    """Tokens as we count them. Agents differ in whether cached ones are input and thoughts output: the sum tells."""
    read_, written = told.cached_read_tokens or 0, told.cached_write_tokens or 0
    cached, thoughts = read_ + written, told.thought_tokens or 0
    input_, output = told.input_tokens, told.output_tokens
    rest = told.total_tokens - input_ - output
    if thoughts and rest in (thoughts, thoughts + cached):
        output += thoughts
    if cached and rest in (0, thoughts):
        input_ = max(0, input_ - cached)
    return Usage(input=input_, output=output, cache_read=read_, cache_write=written, reasoning=thoughts)


def _abilities(said: schema.AgentCapabilities) -> facts.Abilities:
    prompt = said.prompt_capabilities or schema.PromptCapabilities()
    mcp = said.mcp_capabilities or schema.McpCapabilities()
    session = said.session_capabilities or schema.SessionCapabilities()
    return facts.Abilities(
        load=said.load_session,
        resume=_is_there(session.resume),
        fork=_is_there(session.fork),
        list=_is_there(session.list),
        close=_is_there(session.close),
        delete=_is_there(session.delete),
        logout=said.auth is not None and _is_there(said.auth.logout),
        directories=_is_there(session.additional_directories),
        mcp_http=mcp.http,
        mcp_sse=mcp.sse,
        image=prompt.image,
        audio=prompt.audio,
        embedded=prompt.embedded_context,
    )


def _is_there(capability: object) -> bool:
    """An empty object says yes; null and false say no."""
    return capability is not None and capability is not False


def _login(method: schema.AuthMethod) -> facts.Login:
    older = method.meta.terminal if method.meta else None
    env = (older.env if older else None) or method.env or {}
    return facts.Login(
        id=method.id,
        name=method.name,
        description=method.description or "",
        arguments=tuple(method.args or ()) if method.type == "terminal" else None,
        command=(older.command, *(older.args or ())) if older and older.command else None,
        env=tuple(env.items()),
    )


def _modes(said: schema.ModeState | None) -> facts.Choices | None:
    if said is None:
        return None
    modes = tuple(
        facts.Choice(id=mode.id, name=mode.name, description=mode.description or "") for mode in said.available_modes
    )
    return facts.Choices(current=said.current_mode_id, choices=modes)


def _models(said: schema.ModelState | None) -> facts.Choices | None:
    if said is None:
        return None
    models = tuple(
        facts.Choice(id=model.model_id, name=model.name, description=model.description or "")
        for model in said.available_models
    )
    return facts.Choices(current=said.current_model_id, choices=models)
