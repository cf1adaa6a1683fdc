"""The tables of states: complete, without dead ends, and with one answer to what they do not allow."""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tests.each import each
from tests.wire.dialogues import Player, parse, paths, received
from tieline.backends.cursor.attempt import ATTEMPT_TRANSITIONS, AttemptEvent, AttemptState
from tieline.backends.cursor.run import (
    LEG_TRANSITIONS,
    LIVE_RUN_TRANSITIONS,
    LegEvent,
    LegPhase,
    LiveRunEvent,
    LiveRunState,
)
from tieline.model.events import StopReason
from tieline.wire.cursor.run.states import (
    ENDED,
    IN_LEG,
    RUN_TRANSITIONS,
    TURN_TRANSITIONS,
    IllegalTransition,
    RunEvent,
    RunState,
    ServiceTurnEvent,
    ServiceTurnState,
)

TEST = re.compile(r"def (test_\w+)")
Table = Mapping[Any, Mapping[Any, Any]]

TABLES: dict[str, tuple[Table, type[Enum], type[Enum], Enum, set[Enum]]] = {
    "run": (RUN_TRANSITIONS, RunState, RunEvent, RunState.NO_LEG, set(ENDED)),
    "turn": (TURN_TRANSITIONS, ServiceTurnState, ServiceTurnEvent, ServiceTurnState.OPEN, {ServiceTurnState.ENDED}),
    "attempt": (ATTEMPT_TRANSITIONS, AttemptState, AttemptEvent, AttemptState.OPENING, {AttemptState.CLOSED}),
    "leg": (LEG_TRANSITIONS, LegPhase, LegEvent, LegPhase.NEW, {LegPhase.FINISHED, LegPhase.FAILED}),
    "live run": (LIVE_RUN_TRANSITIONS, LiveRunState, LiveRunEvent, LiveRunState.NEW, {LiveRunState.CLOSED}),
}
EACH = each("name", TABLES)


def reachable(table: Table, start: Enum) -> set[Enum]:
    seen, left = {start}, [start]
    while left:
        following = set(table[left.pop()].values()) - seen
        seen |= following
        left += following
    return seen


@EACH
def test_a_table_has_every_state_and_uses_every_event(name: str) -> None:
    table, states, events, _, _ = TABLES[name]
    assert set(table) == set(states)
    assert {event for row in table.values() for event in row} == set(events)


@EACH
def test_every_state_is_reached_and_has_a_way_to_an_end(name: str) -> None:
    table, states, _, start, ends = TABLES[name]
    assert reachable(table, start) == set(states)
    for state in states:
        assert reachable(table, state) & ends, f"{state} is a dead end"


@EACH
def test_what_a_table_does_not_allow_is_an_error(name: str) -> None:
    table, states, events, _, _ = TABLES[name]
    for state in states:
        for event in events:
            if event not in table[state]:
                with pytest.raises(IllegalTransition, match=re.escape(f"{event} is not allowed in {state}")):
                    table[state][event]


def test_a_run_can_fail_in_every_live_state() -> None:
    for state in set(RunState) - ENDED:
        assert RUN_TRANSITIONS[state][RunEvent.RUN_FAILS] in ENDED


def test_calls_and_good_ends_of_the_service_are_allowed_wherever_frames_are_read() -> None:
    for state in set(RunState) - ENDED - {RunState.UNFRAMED}:
        assert {RunEvent.CALL, RunEvent.RUN_FINISHES} <= set(RUN_TRANSITIONS[state])


def test_the_turn_takes_every_event_in_every_state() -> None:
    for row in TURN_TRANSITIONS.values():
        assert set(row) == set(ServiceTurnEvent)


def test_the_dialogues_go_through_every_state_of_a_run() -> None:
    seen: set[RunState] = set()
    for path in paths():
        player = Player()
        for step in parse(path.read_text()):
            player.run.receive(received(step.line)) if step.is_received else player.do(step.line)
            seen.add(player.run.state)
    assert seen == set(RunState)


def test_two_legs_at_once_are_an_error() -> None:
    player = Player()
    player.do("@ start")
    assert player.run.state in IN_LEG
    with pytest.raises(IllegalTransition):
        player.run.begin("leg_2", "demo")


def test_a_run_without_a_leg_cannot_be_finished() -> None:
    player = Player()
    player.do("@ start")
    player.run.finish(StopReason.END_TURN)
    with pytest.raises(IllegalTransition):
        player.run.finish(StopReason.END_TURN)


def test_what_the_code_cites_exists() -> None:
    """Comments name the transcripts and tests that require a transition."""
    root = Path(__file__).parents[2]
    folders = ("src/tieline/wire/cursor", "src/tieline/backends/cursor")
    sources = [path.read_text() for folder in folders for path in (root / folder).rglob("*.py")]
    cited = {name for text in sources for name in re.findall(r"Seen in (?:transcripts/cursor/)?(\w+)", text)}
    tests = {name for path in (root / "tests").rglob("test_cursor_*.py") for name in TEST.findall(path.read_text())}
    assert len(cited) > 20
    assert cited - {path.stem for path in paths()} - tests == set()
