"""The tool calls of a session.

An agent announces a call, patches it, and may request permission for it. Agents differ in where they put the
information about a call: some request permission for a call that they never announced, others put only the id of the
call into the permission request. Therefore all information about a call is merged in one table, and each
`CallUpdate` and `PermissionRequested` contains the complete call.
"""

from msgspec import Raw
from msgspec.structs import replace

from tieline.model.bounded_cache import BoundedCache
from tieline.wire.acp.content import part_of
from tieline.wire.acp.facts import AgentCall, CallDiff, CallLocation, Fact, TerminalEnded, TerminalOutput
from tieline.wire.acp.updates import (
    ABSENT,
    CallContent,
    CallFields,
    CallMeta,
    ContentItemShape,
    DiffItemShape,
    TerminalItemShape,
)
from tieline.wire.shared.lenient import well_formed

MAX_CALLS = 512
"""The maximum number of calls in the table. The least recently used are dropped first."""

KEPT = 16
"""The number of calls that stay in the table after the end of a turn, for late updates."""


class CallTable:
    """The known calls of one session, by id."""

    def __init__(self) -> None:
        self._calls: BoundedCache[str, AgentCall] = BoundedCache(MAX_CALLS)

    def __contains__(self, call: str) -> bool:
        return call in self._calls

    def start(self, fields: CallFields) -> AgentCall:
        """Add a call that the agent announced, and return it.

        A call with the same id is replaced if it has ended; otherwise the announcement is merged into it.
        """
        known = self._calls.get(fields.tool_call_id)
        if known is not None and known.has_ended:
            self._calls.pop(fields.tool_call_id)
        return self.patch(fields)

    def patch(self, fields: CallFields) -> AgentCall:
        """Merge an update into the call with the same id, and return the complete call. An unknown call is added."""
        known = self._calls.get(fields.tool_call_id) or AgentCall(id=fields.tool_call_id)
        call = _patched(known, fields)
        self._calls.put(call.id, call)
        return call

    def merge_request(self, fields: CallFields) -> AgentCall:
        """Merge a permission request into the call with the same id, and return the complete call.

        The content of the request does not replace earlier content but is added to it, because some agents (Kimi) put
        the arguments into the call and only a summary into the request.
        """
        known = self._calls.get(fields.tool_call_id) or AgentCall(id=fields.tool_call_id)
        call = self.patch(fields)
        paths = {diff.path for diff in call.diffs}
        whole_call = replace(
            call,
            content=(*known.content, *(part for part in call.content if part not in known.content)),
            diffs=(*(diff for diff in known.diffs if diff.path not in paths), *call.diffs),
            terminals=tuple(dict.fromkeys([*known.terminals, *call.terminals])),
        )
        # The content of the request is only a summary, not a result of the call.
        self._calls.put(call.id, replace(whole_call, content=known.content or call.content))
        return whole_call

    def settle(self) -> None:
        """Clean up at the end of a turn: keep only the last `KEPT` calls, and drop their content."""
        calls = [self._calls.get(call_id) for call_id in list(self._calls)[-KEPT:]]
        self._calls.clear()
        for call in calls:
            if call is not None:
                self._calls.put(call.id, _without_content(call))


def _without_content(call: AgentCall) -> AgentCall:
    return AgentCall(
        id=call.id,
        title=call.title,
        name=call.name,
        kind=call.kind,
        status=call.status,
        tool=call.tool,
        is_mcp=call.is_mcp,
    )


def is_about_terminals(fields: CallFields) -> bool:
    """Return whether an update contains only `_meta`, such as terminal output, and does not change the call itself."""
    values = (fields.title, fields.name, fields.kind, fields.status, fields.content, fields.locations)
    is_silent = all(value is None for value in values) and not (_given(fields.raw_input) or _given(fields.raw_output))
    return is_silent and fields.meta is not None and fields.meta.terminal_info is None


def terminal_facts(session: str, call: AgentCall, meta: CallMeta | None) -> list[Fact]:
    """Return facts about the output and the end of a terminal that the agent itself runs.

    If `meta` does not name the terminal, the facts refer to the last terminal of the call. If the call has none, the
    id of the call is used as the name of the terminal.
    """
    if meta is None:
        return []
    usual = call.terminals[-1] if call.terminals else call.id
    facts: list[Fact] = [
        TerminalOutput(
            session=session, call=call.id, terminal=output.terminal_id or usual, text=well_formed(output.data)
        )
        for output in (meta.terminal_output, meta.terminal_output_delta)
        if output is not None and output.data
    ]
    if meta.terminal_exit is not None:
        end = meta.terminal_exit
        terminal = end.terminal_id or usual
        facts.append(
            TerminalEnded(session=session, call=call.id, terminal=terminal, exit_code=end.exit_code, signal=end.signal)
        )
    return facts


def _patched(call: AgentCall, fields: CallFields) -> AgentCall:
    if fields.content is not None:
        call = _with_content(call, fields.content)
    if fields.meta is not None:
        call = _with_meta(call, fields.meta)
    if fields.locations is not None:
        places = (CallLocation(path=place.path, line=place.line) for place in fields.locations if place.path)
        call = replace(call, locations=tuple(places))
    if _given(fields.raw_input):
        call = replace(call, input=bytes(fields.raw_input).decode("utf-8", "replace"))
    if _given(fields.raw_output):
        call = replace(call, output=bytes(fields.raw_output).decode("utf-8", "replace"))
    return replace(
        call,
        title=fields.title or call.title,
        name=fields.name or call.name,
        kind=fields.kind or call.kind,
        status=fields.status or call.status,
    )


def _given(value: Raw) -> bool:
    """Return whether a field is present and not null."""
    return value is not ABSENT and bytes(value) not in (b"", b"null")


def _with_content(call: AgentCall, items: list[CallContent]) -> AgentCall:
    blocks = [item.content if isinstance(item, ContentItemShape) else item for item in items]
    return replace(
        call,
        content=tuple(part_of(block) for block in blocks if not isinstance(block, DiffItemShape | TerminalItemShape)),
        diffs=tuple(
            CallDiff(path=item.path, new=item.new_text, old=item.old_text)
            for item in items
            if isinstance(item, DiffItemShape)
        ),
        terminals=tuple(item.terminal_id for item in items if isinstance(item, TerminalItemShape)),
    )


def _with_meta(call: AgentCall, meta: CallMeta) -> AgentCall:
    call = replace(call, tool=meta.tool or call.tool, is_mcp=call.is_mcp or meta.is_mcp is True)
    info = meta.terminal_info
    if info is None or not info.terminal_id or info.terminal_id in call.terminals:
        return call
    return replace(call, terminals=(*call.terminals, info.terminal_id))
