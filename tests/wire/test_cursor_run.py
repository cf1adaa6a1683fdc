"""The machine of a run: what dialogues do not show, published bytes, and input that is no good."""

import random
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal

import pytest

from tests.chance import seeds
from tests.each import Failures, each
from tests.grammar import check
from tests.wire.dialogues import Player, parse, paths, received
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)
from tieline.model.request import Request, ToolSpec
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb.conversation_pb2 import ConversationStateStructure
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.run_request import MachineInfo, Opening, RunSettings, open_run
from tieline.wire.cursor.run.machine import MAX_UNREAD, CursorRun
from tieline.wire.cursor.stored_state import Blobs
from tieline.wire.framing.connect import END, frame

CALL = (
    '< exec_server {"id": %d, "mcpArgs": {"name": "weather", "providerIdentifier": "tieline", "toolName": "weather"}}'
)
TURN_ENDED = '< interaction_update {"turnEnded": {}}'
HEARTBEAT = '< interaction_update {"heartbeat": {}}'
GOOD_END = "< end {}"


def says(text: str) -> str:
    return f'< interaction_update {{"textDelta": {{"text": "{text}"}}}}'


def play(*lines: str, player: Player | None = None) -> tuple[CursorRun, list[Event]]:
    """The run after these lines of a dialogue, and the events of the last of them."""
    player = player or Player()
    events: list[Event] = []
    for line in lines:
        events = player.run.receive(received(line)) if line.startswith("<") else player.do(line)
    return player.run, events


def started(*lines: str) -> CursorRun:
    return play('@ start {"tools": ["weather", "read"]}', *lines)[0]


def opening(request: Request | None = None) -> Opening:
    return open_run(
        request or Request(model="demo", messages=()),
        settings=RunSettings(),
        machine_info=MachineInfo(),
        conversation_id="c",
        run_id="r",
        message_id="m",
    )


def made(**options: Any) -> CursorRun:
    minted = count(1)
    run = CursorRun(opening(), mint=lambda: f"call_{next(minted)}", blobs=Blobs(), **options)
    run.begin("leg", "demo")
    run.pull()
    run.outbox()
    return run


# ── Published bytes ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("0a026a00", []),
        ("0a060a040a024869", ["Hi"]),
        ("0a0622040a02486d", ["Hm"]),
        ("0a0442020803", []),
        ("2a040a020807", []),
    ],
    ids=["heartbeat", "text", "thinking", "tokens", "abort"],
)
def test_published_messages_of_the_service_are_understood(payload: str, expected: list[str]) -> None:
    run = made()
    events = run.receive(frame(bytes.fromhex(payload)))
    assert [event.text for event in events if isinstance(event, PartDelta)] == expected
    assert run.outbox() == []


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("220408011a00", ["1a0408011a00"]),
        ("2226080212220a20" + "07" * 32, ["1a0408021200"]),
        ("120508079a0600", ["2a0712050807120178", "2a040a020807"]),
    ],
    ids=["blob stored", "blob missing", "thrown"],
)
def test_published_questions_are_answered_in_published_bytes(payload: str, expected: list[str]) -> None:
    run = made()
    run.receive(frame(bytes.fromhex(payload)))
    sent = [agent.AgentClientMessage.FromString(message) for message in run.outbox()]
    for message in sent:
        if message.exec_client_control_message.HasField("throw"):
            message.exec_client_control_message.throw.error = "x"
    assert [message.SerializeToString().hex() for message in sent] == expected


def test_a_blob_is_given_in_published_bytes() -> None:
    run = made()
    run.receive(frame(bytes.fromhex("222b08011a270a20" + "07" * 32 + "1203616263")))
    run.receive(frame(bytes.fromhex("2226080212220a20" + "07" * 32)))
    assert [message.hex() for message in run.outbox()] == ["1a0408011a00", "1a09080212050a03616263"]


def test_a_turn_in_published_bytes() -> None:
    run = made()
    stream = "0a060a040a024869", "0a067204080a1002"
    data = b"".join(frame(bytes.fromhex(payload)) for payload in stream) + bytes.fromhex("02000000027b7d")
    assert run.receive(data)[-2:] == [Usage(input=10, output=2), Finished(reason=StopReason.END_TURN)]
    assert made().receive(frame(bytes.fromhex("0a027200")) + frame(b"{}", END)) == [
        Finished(reason=StopReason.END_TURN)
    ]


def test_heartbeats_are_published_bytes() -> None:
    run = started(CALL % 7)
    run.outbox()
    run.heartbeat()
    run.exec_heartbeat()
    assert [message.hex() for message in run.outbox()] == ["3a00", "2a041a020807"]


def test_the_published_read_is_a_call_and_its_close_is_published_too() -> None:
    run = started()
    run.outbox()
    events = run.receive(frame(bytes.fromhex("121708073a0f0a09524541444d452e6d64120274317a026531")))
    assert [event.part for event in events if isinstance(event, PartEnd)] == [
        ToolCall(id="call_1", name="read", arguments='{"path":"README.md"}')
    ]
    run.answer([ToolResult(call_id="call_1", content=(Text(text="hello"),))])
    assert run.outbox()[-1].hex() == "2a040a020807"


# ── What the caller knows of a run ───────────────────────────────────────────────────────────────


def test_the_first_message_is_the_opening_and_each_is_taken_once() -> None:
    run = CursorRun(opening(), mint=str, blobs=Blobs())
    assert run.outbox() == [opening().message]
    assert run.outbox() == []


def test_only_calls_the_client_has_seen_are_pending() -> None:
    run = started(CALL % 1)
    assert run.pending == {"call_1"}
    run.wake()
    run.receive(received(CALL % 2))
    assert run.pending == {"call_1"}
    run.answer([ToolResult(call_id="call_1")])
    assert run.pending == frozenset()
    run.begin("leg_2", "demo")
    assert run.pending == {"call_2"}


def test_an_aborted_call_is_pending_until_the_client_has_answered_it() -> None:
    """Ours: the client runs it in any case, and must find the run where it left it."""
    run = started(CALL % 1, "@ wake", '< exec_server_control {"abort": {"id": 1}}')
    assert run.pending == {"call_1"}
    run.outbox()
    run.exec_heartbeat()
    assert run.outbox() == []
    run.answer([ToolResult(call_id="call_1")])
    assert run.pending == frozenset()
    assert run.outbox() == []


def test_nothing_is_pending_once_the_run_is_over() -> None:
    run = started(CALL % 1, "@ wake", "@ eof")
    assert run.ended
    assert run.pending == frozenset()


def test_a_result_is_sent_once() -> None:
    run = started(CALL % 1, "@ wake")
    result = ToolResult(call_id="call_1", content=(Text(text="x"),))
    run.outbox()
    run.answer([result, result])
    run.answer([result])
    assert len(run.outbox()) == 2


def test_a_checkpoint_is_kept_and_is_good_unless_a_call_was_open() -> None:
    run = started()
    assert (run.checkpoint, run.checkpoint_usable) == (None, False)
    run.receive(received('< checkpoint {"mode": "AGENT_MODE_PLAN"}'))
    assert run.checkpoint == ConversationStateStructure(mode="AGENT_MODE_PLAN").SerializeToString()
    assert run.checkpoint_usable
    run.receive(received(CALL % 1))
    assert not run.checkpoint_usable, "it was taken before the call, which would be made again"
    run.receive(received('< checkpoint {"selfSummaryCount": 1}'))
    assert run.checkpoint == ConversationStateStructure(self_summary_count=1).SerializeToString()
    assert not run.checkpoint_usable
    run.answer([ToolResult(call_id="call_1")])
    run.receive(received('< checkpoint {"pendingToolCalls": ["t"]}'))
    assert not run.checkpoint_usable
    run.receive(received("< checkpoint {}"))
    assert run.checkpoint_usable


def test_a_checkpoint_with_pending_calls_is_good_if_the_client_has_answered_none_of_them() -> None:
    run = started('< checkpoint {"pendingToolCalls": ["t"]}')
    assert run.checkpoint_usable


def test_a_checkpoint_keeps_what_our_schema_does_not_know() -> None:
    run = started("< payload 1a07ba3e04deadbeef")
    assert run.checkpoint == bytes.fromhex("ba3e04deadbeef")


def test_heartbeats_are_no_progress_and_everything_else_is() -> None:
    run = started(HEARTBEAT, HEARTBEAT)
    assert run.progress == 0
    for at, line in enumerate((says("a"), says("b"), '< kv_server {"id": 1}', "< checkpoint {}", CALL % 1), start=1):
        run.receive(received(line))
        run.receive(received(HEARTBEAT))
        assert run.progress == at


def test_quiet_means_something_only_after_a_call_or_the_turn() -> None:
    player = Player()
    run, _ = play('@ start {"tools": ["weather"]}', says("a"), player=player)
    assert run.wake_after is None
    assert run.wake() == []
    play(CALL % 1, player=player)
    assert run.wake_after == pytest.approx(0.05)
    play("@ wake", player=player)
    assert run.wake_after is None
    play(CALL % 2, player=player)
    assert run.wake_after is None, "nobody is there to be told"
    play('@ answer {"call_1": "x"}', "@ leg", '@ answer {"call_2": "x"}', "@ leg", player=player)
    assert run.wake_after is None
    play(TURN_ENDED, player=player)
    assert run.wake_after == pytest.approx(1.0)
    assert run.turn_ended
    assert not run.ended
    play("@ wake", player=player)
    assert run.wake_after is None
    assert run.ended


def test_the_turn_is_not_over_while_a_call_is_open() -> None:
    run = started(CALL % 1, "@ wake", "@ leg", TURN_ENDED)
    assert run.wake_after is None
    for _ in range(5):
        assert run.receive(received(HEARTBEAT)) == []
    assert not run.ended


def test_what_a_leg_has_given_is_known() -> None:
    player = Player()
    run, _ = play('@ start {"tools": ["weather"]}', player=player)
    assert run.calls == 0
    play(says("a"), CALL % 1, CALL % 2, player=player)
    assert run.calls == 2
    play("@ wake", "@ leg", player=player)
    assert run.calls == 0


def test_a_leg_may_end_well_in_place_of_a_failure() -> None:
    run, events = play('@ start {"tools": ["weather"]}', says("Look"), CALL % 1, says("ing"), "@ eof")
    assert isinstance(events[-1], Failed)
    assert run.calls == 1
    assert run.finish(StopReason.TOOL_USE) == [
        PartEnd(index=2, part=Text(text="ing")),
        Finished(reason=StopReason.TOOL_USE),
    ]
    assert run.receive(received(says("x"))) == []


def test_there_is_nothing_to_rescue_where_nothing_was_stored() -> None:
    run = started(says("It is"))
    assert run.rescue() == []
    assert not run.ended
    assert run.receive(received(says(" so"))) == [PartDelta(index=0, text=" so")]


def test_a_leg_after_the_end_fails_at_once() -> None:
    run = started(TURN_ENDED, GOOD_END)
    run.begin("leg_2", "demo")
    events = run.pull()
    check(events)
    assert isinstance(events[-1], Failed)


def test_words_without_a_result_that_can_take_them_are_said_all_the_same() -> None:
    run = started(CALL % 1, "@ wake", '< exec_server_control {"abort": {"id": 1}}')
    run.outbox()
    run.answer([ToolResult(call_id="call_1")], "Stop that.")
    (message,) = run.outbox()
    assert b"Stop that." in message


def test_too_much_said_between_two_legs_ends_the_run() -> None:
    run = started(CALL % 1, "@ wake")
    size = 1 << 20
    for _ in range(MAX_UNREAD // size):
        run.receive(received(says("x" * size)))
    assert run.ended
    run.begin("leg_2", "demo")
    assert isinstance(run.pull()[-1], Failed)


def test_a_page_instead_of_frames_is_waited_for_only_so_long() -> None:
    run = made()
    assert run.receive(b"<html><title>Sign in</title>") == []
    assert run.wake_after == pytest.approx(1.0)
    (failed,) = run.wake()
    assert isinstance(failed, Failed)
    assert "Sign in" in failed.message
    (failed,) = made().receive(b"<html>" * 1000)
    assert isinstance(failed, Failed)


# ── One attempt takes over from another ──────────────────────────────────────────────────────────


def taken_over(*lines: str, resumed: bool = False) -> CursorRun:
    before = started(*lines)
    run = CursorRun(opening(), mint=str, blobs=before.blobs)
    run.take_over(before, resumed=resumed)
    return run


def test_another_attempt_goes_on_in_the_same_leg_and_says_nothing_twice() -> None:
    run = taken_over(says("It is su"), "@ eof")
    assert run.pull() == []
    assert run.receive(received(says("It "))) == []
    assert run.receive(received(says("is sunny"))) == [PartDelta(index=0, text="nny")]
    assert run.receive(received(says(" today"))) == [PartDelta(index=0, text=" today")]
    assert run.receive(received(TURN_ENDED) + received(GOOD_END)) == [
        PartEnd(index=0, part=Text(text="It is sunny today")),
        Finished(reason=StopReason.END_TURN),
    ]


def test_another_attempt_that_says_something_else_says_it_in_a_part_of_its_own() -> None:
    """What the client has read cannot be taken back. It is told apart by a paragraph, and noted."""
    run = taken_over(says("It is su"), "@ eof")
    ended, note, *said = run.receive(received(says("It rains")))
    assert ended == PartEnd(index=0, part=Text(text="It is su"))
    assert isinstance(note, Note)
    assert said == [PartStart(index=1, part=Text()), PartDelta(index=1, text="\n\nIt rains")]


def followed(before: CursorRun, *, resumed: bool = False) -> CursorRun:
    """The attempt after one that broke off."""
    before.receive_eof()
    run = CursorRun(opening(), mint=lambda: "call_1", blobs=before.blobs)
    if resumed:
        run.inherit_checkpoint(before)
    run.take_over(before, resumed=resumed)
    return run


@pytest.mark.parametrize("resumed", [False, True])
def test_after_something_else_was_said_that_is_what_may_be_said_again(resumed: bool) -> None:
    second = taken_over(says("One. "), "< checkpoint {}", says("It is su"), "@ eof", resumed=resumed)
    second.receive(received(says("Never mi")))
    third = followed(second, resumed=resumed)
    assert third.receive(received(says("Never mind."))) == [PartDelta(index=1, text="nd.")]


def test_what_is_said_after_a_call_is_never_taken_for_something_said_before() -> None:
    run = taken_over(says("It is su"), "@ eof")
    run.set_tools(OfferedTools.of([ToolSpec(name="weather")]))
    run.receive(received(CALL % 1))
    run.wake()
    run.answer([ToolResult(call_id=call_id) for call_id in run.pending])
    run.begin("leg_2", "demo")
    run.pull()
    assert run.receive(received(says("It is sunny")))[-1] == PartDelta(index=0, text="It is sunny")


def test_a_checkpoint_serves_until_there_is_another() -> None:
    """A stream may break off twice before the service has kept anything new."""
    first = started(says("One. "), "< checkpoint {}", says("Two"))
    second = followed(first, resumed=True)
    assert (second.checkpoint, second.checkpoint_usable) == (first.checkpoint, True)
    second.receive(received(says("Two. Th")))
    third = followed(second, resumed=True)
    assert third.receive(received(says("Two. Three."))) == [PartDelta(index=0, text="ree.")]


def of(role: Literal["user", "assistant"], text: str) -> Message:
    return Message(role=role, parts=(Text(text=text),))


@pytest.mark.parametrize("number", [0, 1])
def test_the_context_and_the_history_are_there_however_long_a_call_takes(number: int) -> None:
    """While the client runs its tools they are kept in less room."""
    tools = [ToolSpec(name="weather", description="It rains or it does not. " * 100)]
    asked = Request(model="demo", tools=tuple(tools), messages=(of("user", "x" * 5000), of("assistant", "y" * 5000)))
    opened = opening(asked)
    run = CursorRun(opened, mint=lambda: "call_1", blobs=Blobs(opened.blobs))
    run.begin("leg", "demo")
    run.receive(received(CALL % 1))
    run.wake()
    run.outbox()
    for _ in range(number):
        run.set_tools(OfferedTools.of(tools))
    run.receive(received('< exec_server {"id": 7, "requestContextArgs": {}}'))
    told = agent.AgentClientMessage.FromString(run.outbox()[0]).exec_client_message
    assert told.request_context_result.success.request_context == opened.context
    assert {blob_id: run.blobs.get(blob_id) for blob_id in opened.blobs} == opened.blobs


def test_an_attempt_that_begins_with_a_checkpoint_repeats_only_what_came_after_it() -> None:
    run = taken_over(says("One. "), "< checkpoint {}", says("Two"), "@ eof", resumed=True)
    assert run.receive(received(says("Two. Three."))) == [PartDelta(index=0, text=". Three.")]


def test_an_attempt_from_a_checkpoint_after_all_text_just_goes_on() -> None:
    run = taken_over(says("One. "), "< checkpoint {}", "@ eof", resumed=True)
    assert run.receive(received(says("Two."))) == [PartDelta(index=0, text="Two.")]


def test_a_third_attempt_knows_what_the_first_two_have_said() -> None:
    second = taken_over(says("It is su"), "@ eof")
    second.receive(received(says("It is sunny")))
    second.receive_eof()
    third = CursorRun(opening(), mint=str, blobs=second.blobs)
    third.take_over(second, resumed=False)
    assert third.receive(received(says("It is sunny!"))) == [PartDelta(index=0, text="!")]


def test_an_attempt_that_had_begun_to_think_is_followed_by_thinking_anew() -> None:
    run = taken_over('< interaction_update {"thinkingDelta": {"text": "Hm"}}', "@ eof")
    events = run.receive(received(says("Yes.")) + received(TURN_ENDED) + received(GOOD_END))
    assert [type(event) for event in events] == [PartEnd, PartStart, PartDelta, PartEnd, Finished]


# ── Input that is no good ────────────────────────────────────────────────────────────────────────


def damaged(stream: bytes, chance: random.Random) -> bytes:
    data = bytearray(stream)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(8)]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(8))
            case _:
                data[at] ^= 1 << chance.randrange(8)
        if not data:
            break
    return bytes(data)


@each("path", paths(), ids=lambda path: path.stem)
def test_damage_never_raises_and_every_leg_ends(path: Any) -> None:
    steps = parse(path.read_text())
    stream = b"".join(received(step.line) for step in steps if step.is_received) or b"\0"
    failures = Failures()
    for seed in seeds(40):
        with failures.of(f"seed {seed}"):
            chance = random.Random(seed)
            player = Player()
            events = player.do(steps[0].line)
            data = damaged(stream, chance)
            cut = chance.randrange(len(data) + 1)
            for piece in (data[:cut], data[cut:]):
                events += player.run.receive(piece)
                player.run.outbox()
            events += player.run.wake()
            events += player.run.receive_eof()
            check_legs(events)
            assert player.run.ended
    failures.check()


@each("seed", seeds(20))
def test_noise_never_raises(seed: int) -> None:
    chance = random.Random(seed)
    run = started()
    events: list[Event] = [Started(id="leg", model="demo")]
    for _ in range(200):
        events += run.receive(frame(chance.randbytes(chance.randrange(40)), chance.choice((0, 0, 0, 0, 1, 2, 64, 128))))
    events += run.receive_eof()
    check_legs(events)
    assert sum(isinstance(event, Note) for event in events) <= 200


def check_legs(events: Sequence[Event]) -> None:
    leg: list[Event] = []
    for event in events:
        leg.append(event)
        if isinstance(event, Finished | Failed):
            check(leg)
            leg = []
    assert not leg
