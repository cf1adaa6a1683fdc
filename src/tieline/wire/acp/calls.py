"""The tool calls of a session: told once, then patched, and asked permission for before, after or without being told.

Agents differ in what they tell where: some ask permission for a call that was never told, some name only the id of one
that was. So all that is told of a call, wherever it stands, goes into one table, and what comes out is always the whole
of what is known.
"""

from msgspec.structs import replace

from tieline.wire.acp.content import part_of
from tieline.wire.acp.facts import Call, Diff, Fact, Location, TerminalEnded, TerminalOutput
from tieline.wire.acp.updates import CallContent, CallFields, CallMeta, ContentItem, DiffItem, TerminalItem, given
from tieline.wire.shared.lenient import well_formed

MAX_CALLS = 512
"""How many calls of one turn are remembered."""

KEPT = 16
"""How many calls of an earlier turn are: an agent may have a last word on them."""


class Calls:
    """What is known of the calls of one session."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def __contains__(self, call: str) -> bool:
        return call in self._calls

    def start(self, told: CallFields) -> Call:
        """A call is told of; an id that belongs to one that has ended is used anew."""
        known = self._calls.get(told.tool_call_id)
        if known is not None and known.has_ended:
            del self._calls[told.tool_call_id]
        return self.patch(told)

    def patch(self, told: CallFields) -> Call:
        """More is told of a call, or something of one that is not known."""
        known = self._calls.get(told.tool_call_id) or Call(id=told.tool_call_id)
        call = self._calls[told.tool_call_id] = _patched(known, told)
        if len(self._calls) > MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        return call

    def asked(self, told: CallFields) -> Call:
        """Permission is asked for a call: all that is known of it. Nothing told before is dropped, since an agent may
        tell the arguments in the call and only a summary in the request (Kimi)."""
        known = self._calls.get(told.tool_call_id) or Call(id=told.tool_call_id)
        call = self.patch(told)
        paths = {diff.path for diff in call.diffs}
        whole_call = replace(
            call,
            content=(*known.content, *(part for part in call.content if part not in known.content)),
            diffs=(*(diff for diff in known.diffs if diff.path not in paths), *call.diffs),
            terminals=tuple(dict.fromkeys([*known.terminals, *call.terminals])),
        )
        # A summary is nothing that came of the call.
        self._calls[told.tool_call_id] = replace(whole_call, content=known.content or call.content)
        return whole_call

    def settle(self) -> None:
        """A turn is over: of the last calls the names are kept, and nothing of the others."""
        last = list(self._calls.values())[-KEPT:]
        self._calls = {
            call.id: Call(
                id=call.id,
                title=call.title,
                name=call.name,
                kind=call.kind,
                status=call.status,
                tool=call.tool,
                is_mcp=call.is_mcp,
            )
            for call in last
        }


def terminal_facts(session: str, call: Call, meta: CallMeta | None) -> list[Fact]:
    """What is told of a terminal of the agent's own; where it has no name it is the one of the call."""
    if meta is None:
        return []
    usual = call.terminals[-1] if call.terminals else call.id
    facts: list[Fact] = [
        TerminalOutput(
            session=session,
            call=call.id,
            terminal=output.terminal_id or usual,
            text=well_formed(output.data),
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


def _patched(call: Call, told: CallFields) -> Call:
    if told.content is not None:
        call = _with_content(call, told.content)
    if told.meta is not None:
        call = _with_meta(call, told.meta)
    if told.locations is not None:
        places = (Location(path=place.path, line=place.line) for place in told.locations if place.path)
        call = replace(call, locations=tuple(places))
    if given(told.raw_input):
        call = replace(call, input=bytes(told.raw_input).decode("utf-8", "replace"))
    if given(told.raw_output):
        call = replace(call, output=bytes(told.raw_output).decode("utf-8", "replace"))
    return replace(
        call,
        title=told.title or call.title,
        name=told.name or call.name,
        kind=told.kind or call.kind,
        status=told.status or call.status,
    )


def _with_content(call: Call, items: list[CallContent]) -> Call:
    blocks = [item.content if isinstance(item, ContentItem) else item for item in items]
    return replace(
        call,
        content=tuple(part_of(block) for block in blocks if not isinstance(block, DiffItem | TerminalItem)),
        diffs=tuple(
            Diff(path=item.path, new=item.new_text, old=item.old_text) for item in items if isinstance(item, DiffItem)
        ),
        terminals=tuple(item.terminal_id for item in items if isinstance(item, TerminalItem)),
    )


def _with_meta(call: Call, meta: CallMeta) -> Call:
    call = replace(call, tool=meta.tool or call.tool, is_mcp=call.is_mcp or meta.is_mcp is True)
    info = meta.terminal_info
    if info is None or not info.terminal_id or info.terminal_id in call.terminals:
        return call
    return replace(call, terminals=(*call.terminals, info.terminal_id))
