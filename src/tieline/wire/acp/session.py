"""What a client knows of one session, and what the agent's updates of it mean."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Text
from tieline.wire.acp import extensions, facts, schema, updates
from tieline.wire.acp.calls import Calls, terminal_facts
from tieline.wire.acp.content import part_of
from tieline.wire.acp.facts import Fact


class Session:
    """One session: its tool calls, its plan, and the turn under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = Calls()
        self.turn: int | None = None
        """The request of the prompt that is being answered."""
        self.is_cancelling = False
        self._todos: dict[str, extensions.Todo] = {}

    def update(self, told: updates.Update) -> list[Fact]:
        """What one update tells."""
        return _MEANINGS[type(told)](self, told)

    def todos(self, told: extensions.UpdateTodosParams) -> Fact:
        """The plan, after todos were told that replace it or some of it."""
        if not told.merge:
            self._todos.clear()
        for todo in told.todos:
            self._todos[todo.id] = todo
        return facts.PlanUpdate(session=self.name, entries=todo_entries(list(self._todos.values())))

    def end_turn(self) -> None:
        """The prompt has been answered."""
        self.turn = None
        self.is_cancelling = False
        self.calls.settle()


def todo_entries(todos: Sequence[extensions.Todo]) -> tuple[facts.PlanEntry, ...]:
    """Todos as entries of a plan."""
    return tuple(facts.PlanEntry(content=todo.content, status=todo.status or "pending") for todo in todos)


def options_of(options: Sequence[schema.ConfigOption] | None) -> tuple[facts.ConfigOption, ...]:
    """The options of a session, their groups of values made one list."""
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


def _choices(values: Sequence[schema.ConfigValue], group: str) -> list[facts.Choice]:
    found: list[facts.Choice] = []
    for value in values:
        if value.options is not None:
            found += _choices(value.options, value.name)
        else:
            choice = facts.Choice(id=value.value, name=value.name, description=value.description or "", group=group)
            found.append(choice)
    return found


# ── The meaning of each kind ─────────────────────────────────────────────────────────────────────


def _message(session: Session, update: updates.MessageChunk) -> list[Fact]:
    if isinstance(update.content, schema.TextBlock):
        return [facts.TextChunk(session=session.name, text=update.content.text, message=update.message_id)]
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="agent", part=part, message=update.message_id)]


def _thought(session: Session, update: updates.ThoughtChunk) -> list[Fact]:
    if isinstance(update.content, schema.TextBlock):
        return [facts.ThoughtChunk(session=session.name, text=update.content.text, message=update.message_id)]
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="thought", part=part, message=update.message_id)]


def _user(session: Session, update: updates.UserChunk) -> list[Fact]:
    part = part_of(update.content)
    return [facts.ContentChunk(session=session.name, speaker="user", part=part, message=update.message_id)]


def _call(session: Session, update: updates.CallStarted) -> list[Fact]:
    call = session.calls.start(update)
    return _told(session, call, terminal_facts(session.name, call, update.meta))


def _patch(session: Session, update: updates.CallPatched) -> list[Fact]:
    call = session.calls.patch(update)
    more = terminal_facts(session.name, call, update.meta)
    if update.is_about_terminals and more:
        return more
    return _told(session, call, more)


def _told(session: Session, call: facts.Call, terminal: list[Fact]) -> list[Fact]:
    """An update of a call, and what it tells of its terminal: output that comes with the end comes before it."""
    update = facts.CallUpdate(session=session.name, call=call)
    if not call.has_ended or not terminal:
        return [update, *terminal]
    begun = facts.CallUpdate(session=session.name, call=replace(call, status="in_progress"))
    return [begun, *terminal, update]


def _plan(session: Session, update: updates.Plan) -> list[Fact]:
    return [facts.PlanUpdate(session=session.name, entries=_entries(update.entries))]


def _named_plan(session: Session, update: updates.PlanUpdate) -> list[Fact]:
    plan = update.plan
    if plan.entries is not None:
        entries = _entries(plan.entries)
    else:
        entries = (facts.PlanEntry(content=plan.content or plan.uri or ""),)
    return [facts.PlanUpdate(session=session.name, entries=entries)]


def _entries(entries: Sequence[updates.PlanEntry]) -> tuple[facts.PlanEntry, ...]:
    return tuple(
        facts.PlanEntry(content=entry.content, status=entry.status or "pending", priority=entry.priority or "medium")
        for entry in entries
    )


def _commands(session: Session, update: updates.CommandsUpdate) -> list[Fact]:
    commands = tuple(
        facts.Command(name=one.name, description=one.description, hint=one.input.hint if one.input else "")
        for one in update.available_commands
    )
    return [facts.CommandsUpdate(session=session.name, commands=commands)]


def _mode(session: Session, update: updates.ModeUpdate) -> list[Fact]:
    return [facts.ModeChanged(session=session.name, mode=update.current_mode_id or update.mode_id)]


def _options(session: Session, update: updates.OptionsUpdate) -> list[Fact]:
    return [facts.OptionsChanged(session=session.name, options=options_of(update.config_options))]


def _info(session: Session, update: updates.InfoUpdate) -> list[Fact]:
    return [facts.TitleChanged(session=session.name, title=update.title, updated_at=update.updated_at)]


def _usage(session: Session, update: updates.UsageUpdate) -> list[Fact]:
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


def _notice(session: Session, update: updates.Notice) -> list[Fact]:
    return [
        facts.Noticed(
            session=session.name,
            severity=update.severity or "info",
            title=update.title,
            description=update.description or "",
        )
    ]


def _compaction(session: Session, update: updates.CompactionUpdate) -> list[Fact]:
    summary = update.summary or []
    text = "".join(block.text for block in summary if isinstance(block, schema.TextBlock)) or update.error or ""
    return [facts.Compaction(session=session.name, id=update.compaction_id, status=update.status, text=text)]


def _compaction_chunk(session: Session, update: updates.CompactionChunk) -> list[Fact]:
    part = part_of(update.content)
    text = part.text if isinstance(part, Text) else ""
    return [facts.Compaction(session=session.name, id=update.compaction_id, text=text)]


_MEANINGS: dict[type, Callable[[Session, Any], list[Fact]]] = {
    updates.MessageChunk: _message,
    updates.ThoughtChunk: _thought,
    updates.UserChunk: _user,
    updates.CallStarted: _call,
    updates.CallPatched: _patch,
    updates.Plan: _plan,
    updates.PlanUpdate: _named_plan,
    updates.CommandsUpdate: _commands,
    updates.ModeUpdate: _mode,
    updates.OptionsUpdate: _options,
    updates.InfoUpdate: _info,
    updates.UsageUpdate: _usage,
    updates.Notice: _notice,
    updates.CompactionUpdate: _compaction,
    updates.CompactionChunk: _compaction_chunk,
}
