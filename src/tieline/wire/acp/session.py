"""The state that a client keeps for one session, and the conversion of the agent's updates to facts."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Text
from tieline.wire.acp import extensions, facts, schema, updates
from tieline.wire.acp.call_table import CallTable, is_about_terminals, terminal_facts
from tieline.wire.acp.content import part_of
from tieline.wire.acp.facts import Fact


class ClientSession:
    """The client's state for one session: its tool calls, its todo list, and the current turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = CallTable()
        self.turn: int | None = None
        """The request id of the prompt that the agent is answering; None between two turns."""
        self.is_cancelling = False
        self._todos: dict[str, extensions.TodoShape] = {}

    def update(self, update: updates.Update) -> list[Fact]:
        """Apply an update to the state of the session, and return the facts that the update contains."""
        return _READERS[type(update)](self, update)

    def todos(self, params: extensions.UpdateTodosParams) -> Fact:
        """Apply an update to the todo list, and return the complete list as a plan."""
        if not params.merge:
            self._todos.clear()
        for todo in params.todos:
            self._todos[todo.id] = todo
        return facts.PlanUpdate(session=self.name, entries=todo_entries(list(self._todos.values())))

    def end_turn(self) -> None:
        """End the current turn, and drop the content of its tool calls."""
        self.turn = None
        self.is_cancelling = False
        self.calls.settle()


def todo_entries(todos: Sequence[extensions.TodoShape]) -> tuple[facts.AgentPlanEntry, ...]:
    """Convert todos to entries of a plan."""
    return tuple(facts.AgentPlanEntry(content=todo.content, status=todo.status or "pending") for todo in todos)


def options_of(options: Sequence[schema.ConfigOptionShape] | None) -> tuple[facts.ConfigOption, ...]:
    """Convert the options of a session. Groups of values become one flat list of choices."""
    return tuple(
        facts.ConfigOption(
            id=option.id,
            name=option.name,
            description=option.description or "",
            category=option.category or "",
            kind="boolean" if option.type == "boolean" else "select",
            current=option.current_value if option.current_value is not None else "",
            choices=tuple(_choices(option.options or [], "")),
        )
        for option in options or []
    )


def _choices(values: Sequence[schema.ConfigValue], group: str) -> list[facts.NamedChoice]:
    found: list[facts.NamedChoice] = []
    for value in values:
        if value.options is not None:
            found += _choices(value.options, value.name)
        else:
            choice = facts.NamedChoice(
                id=value.value, name=value.name, description=value.description or "", group=group
            )
            found.append(choice)
    return found


# ── Readers by kind of update ────────────────────────────────────────────────────────────────────


def _message(session: ClientSession, update: updates.MessageChunkShape) -> list[Fact]:
    if isinstance(update.content, schema.TextContent):
        return [facts.TextChunk(session=session.name, text=update.content.text, message=update.message_id)]
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="agent", part=part, message=update.message_id)]


def _thought(session: ClientSession, update: updates.ThoughtChunkShape) -> list[Fact]:
    if isinstance(update.content, schema.TextContent):
        return [facts.ThoughtChunk(session=session.name, text=update.content.text, message=update.message_id)]
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="thought", part=part, message=update.message_id)]


def _user(session: ClientSession, update: updates.UserChunkShape) -> list[Fact]:
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="user", part=part, message=update.message_id)]


def _call(session: ClientSession, update: updates.CallStartedShape) -> list[Fact]:
    call = session.calls.start(update)
    return _notified(session, call, terminal_facts(session.name, call, update.meta))


def _patch(session: ClientSession, update: updates.CallPatchedShape) -> list[Fact]:
    call = session.calls.patch(update)
    more = terminal_facts(session.name, call, update.meta)
    if is_about_terminals(update) and more:
        return more
    return _notified(session, call, more)


def _notified(session: ClientSession, call: facts.AgentCall, terminal: list[Fact]) -> list[Fact]:
    """Return the facts about a call and its terminal. If the call has ended, the fact that reports this comes last."""
    update = facts.CallUpdate(session=session.name, call=call)
    if not call.has_ended or not terminal:
        return [update, *terminal]
    begun = facts.CallUpdate(session=session.name, call=replace(call, status="in_progress"))
    return [begun, *terminal, update]


def _plan(session: ClientSession, update: updates.PlanShape) -> list[Fact]:
    return [facts.PlanUpdate(session=session.name, entries=_entries(update.entries))]


def _named_plan(session: ClientSession, update: updates.NamedPlanUpdateShape) -> list[Fact]:
    plan = update.plan
    if plan.entries is not None:
        entries = _entries(plan.entries)
    else:
        entries = (facts.AgentPlanEntry(content=plan.content or plan.uri or ""),)
    return [facts.PlanUpdate(session=session.name, entries=entries)]


def _entries(entries: Sequence[updates.PlanEntryShape]) -> tuple[facts.AgentPlanEntry, ...]:
    return tuple(
        facts.AgentPlanEntry(
            content=entry.content, status=entry.status or "pending", priority=entry.priority or "medium"
        )
        for entry in entries
    )


def _commands(session: ClientSession, update: updates.CommandsUpdateShape) -> list[Fact]:
    commands = tuple(
        facts.SlashCommand(name=one.name, description=one.description, hint=one.input.hint if one.input else "")
        for one in update.available_commands
    )
    return [facts.CommandsUpdate(session=session.name, commands=commands)]


def _mode(session: ClientSession, update: updates.ModeUpdateShape) -> list[Fact]:
    return [facts.ModeChanged(session=session.name, mode=update.current_mode_id or update.mode_id)]


def _options(session: ClientSession, update: updates.OptionsUpdateShape) -> list[Fact]:
    return [facts.OptionsChanged(session=session.name, options=options_of(update.config_options))]


def _info(session: ClientSession, update: updates.InfoUpdateShape) -> list[Fact]:
    return [facts.TitleChanged(session=session.name, title=update.title, updated_at=update.updated_at)]


def _usage(session: ClientSession, update: updates.UsageUpdateShape) -> list[Fact]:
    cost = update.cost
    return [
        facts.UsageUpdate(
            session=session.name,
            used=update.used,
            size=update.size,
            cost=cost.amount if cost else None,
            currency=cost.currency if cost else "",
        )
    ]


def _notice(session: ClientSession, update: updates.NoticeShape) -> list[Fact]:
    return [
        facts.Noticed(
            session=session.name,
            severity=update.severity or "info",
            title=update.title,
            description=update.description or "",
        )
    ]


def _compaction(session: ClientSession, update: updates.CompactionUpdateShape) -> list[Fact]:
    summary = update.summary or []
    text = "".join(block.text for block in summary if isinstance(block, schema.TextContent)) or update.error or ""
    return [facts.Compaction(session=session.name, id=update.compaction_id, status=update.status, text=text)]


def _compaction_chunk(session: ClientSession, update: updates.CompactionChunkShape) -> list[Fact]:
    part = part_of(update.content)
    text = part.text if isinstance(part, Text) else ""
    return [facts.Compaction(session=session.name, id=update.compaction_id, text=text)]


_READERS: dict[type, Callable[[ClientSession, Any], list[Fact]]] = {
    updates.MessageChunkShape: _message,
    updates.ThoughtChunkShape: _thought,
    updates.UserChunkShape: _user,
    updates.CallStartedShape: _call,
    updates.CallPatchedShape: _patch,
    updates.PlanShape: _plan,
    updates.NamedPlanUpdateShape: _named_plan,
    updates.CommandsUpdateShape: _commands,
    updates.ModeUpdateShape: _mode,
    updates.OptionsUpdateShape: _options,
    updates.InfoUpdateShape: _info,
    updates.UsageUpdateShape: _usage,
    updates.NoticeShape: _notice,
    updates.CompactionUpdateShape: _compaction,
    updates.CompactionChunkShape: _compaction_chunk,
}
