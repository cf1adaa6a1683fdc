"""The message that opens a run: what a request becomes, and what Cursor's own client sends for the same.

A transcript is a folder of `transcripts/cursor/requests/<case>`: `request.neutral.json`, `given.json` (ids, settings,
facts about the machine, a checkpoint), and what came of it: `opening.json`, the protobuf messages in their JSON form.
Where there is a `recorded.json`, it holds the run request that Cursor's own client sends for the same input, and
`recorded.context.json` its answer to the question for the context, as far as it is the same for everybody.
`pytest --rewrite` writes `opening.json` anew.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from msgspec.structs import replace

from tests.cases import COMMON_CASES, READ, asks, says
from tests.conftest import Golden
from tests.each import each
from tieline.model.content import Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.request import Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage, AgentRunRequest
from tieline.wire.cursor._pb.conversation_pb2 import ConversationAction, ConversationStateStructure, ResumeAction
from tieline.wire.cursor._pb.shared_pb2 import AgentMode
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.offered_tools import PROVIDER
from tieline.wire.cursor.opening.run_request import MachineInfo, Opening, RunSettings, open_run, resume_run
from tieline.wire.cursor.stored_state import blob_id

TRANSCRIPTS = Path(__file__).parent.parent / "transcripts" / "cursor" / "requests"

# `say hello` to the model `demo`, as Cursor's own client sends it.
PLAIN_TEXT = (
    "0a700a00120f0a0d0a0b0a097361792068656c6c6f22002a2a6167656e742d66353162613832652d326561322d346166652d383134382d"
    "3764386233626166643662624a060a0464656d6fca012433396237303266302d393631642d343861612d383465322d6539633931343961396130"
    "63"
)
AGENT = AgentMode.AGENT_MODE_AGENT

DIFFERENT: Mapping[str, str] = {
    "action.userMessageAction.userMessage.selectedContext.selectedImages.uuid": "random there, by content here",
    "gitRepoInfoComplete": "nothing is told of repositories here",
    "conversationState": "empty there, with the mode here: some accounts are said to refuse an empty one",
}
"""Fields of the recorded messages in which ours may differ."""


def each_case(file: str) -> pytest.MarkDecorator:
    found = sorted(path.parent for path in TRANSCRIPTS.glob(f"*/{file}"))
    return pytest.mark.parametrize("case", found, ids=[path.name for path in found])


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """What a transcript says beside the request."""

    conversation_id: str
    run_id: str
    settings: RunSettings = RunSettings()
    machine_info: MachineInfo = MachineInfo()
    checkpoint: str | None = None
    resume_from: str | None = None


def opened(request: Request, **given: Any) -> Opening:
    known: dict[str, Any] = {"settings": RunSettings(), "machine_info": MachineInfo(), **given}
    ids = {"conversation_id": "agent-1", "run_id": "run-1", "message_id": "message-1"}
    return open_run(request, **{**ids, **known})


def run_request(message: bytes) -> AgentRunRequest:
    return AgentClientMessage.FromString(message).run_request


def messages(opening: Opening) -> list[Any]:
    """The history that a run request refers to."""
    ids = run_request(opening.message).conversation_state.root_prompt_messages_json
    return [json.loads(opening.blobs[key]) for key in ids]


def read_request(case: Path) -> Request:
    plain = json.loads((case / "request.neutral.json").read_bytes())
    for spec in (*plain.get("tools", ()), plain.get("output", {})):
        if "schema" in spec:
            spec["schema"] = json.dumps(spec["schema"]).encode()
    return msgspec.convert(plain, Request, builtin_types=(bytes,))


def read_opening(case: Path) -> tuple[Opening, AgentRunRequest]:
    given = msgspec.json.decode((case / "given.json").read_bytes(), type=Given)
    opening = opened(
        read_request(case),
        settings=given.settings,
        machine_info=given.machine_info,
        conversation_id=given.conversation_id,
        run_id=given.run_id,
        checkpoint=None if given.checkpoint is None else bytes.fromhex(given.checkpoint),
    )
    if given.resume_from is None:
        return opening, run_request(opening.message)
    return opening, run_request(resume_run(opening, bytes.fromhex(given.resume_from)))


# ── Transcripts ──────────────────────────────────────────────────────────────────────────────────


@each_case("given.json")
def test_a_request_opens_this_run(case: Path, golden: Golden) -> None:
    opening, run = read_opening(case)
    found = {
        "run_request": json_format.MessageToDict(run),
        "blobs": {key.hex(): json.loads(data) for key, data in opening.blobs.items()},
        "notes": [f"{note.kind}: {note.message}" for note in opening.notes],
    }
    golden(case / "opening.json", json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n")


@each_case("recorded.json")
def test_a_run_request_says_what_cursors_own_client_says(case: Path) -> None:
    """Seen in recordings: every field that the client sends has the same value in ours."""
    _, run = read_opening(case)
    recorded = json.loads((case / "recorded.json").read_bytes().replace(b"custom-user-tools", PROVIDER.encode()))
    agrees(recorded, json_format.MessageToDict(run))


@each_case("recorded.context.json")
def test_the_context_says_what_cursors_own_client_says(case: Path) -> None:
    """Seen in recordings. The client also tells of git and of its own services, which a gateway has not."""
    opening, run = read_opening(case)
    text = (case / "recorded.context.json").read_bytes().replace(b"custom-user-tools", PROVIDER.encode())
    agrees(json.loads(text), json_format.MessageToDict(opening.context))
    assert run.action.user_message_action.request_context == opening.context


def agrees(recorded: Any, ours: Any) -> None:
    values = dict(leaves(ours))
    said = {path: value for path, value in leaves(recorded) if not _is_different(path)}
    assert len(said) > 3
    assert {path: values.get(path) for path in said} == said


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    match value:
        case dict() if value:
            for name, item in value.items():
                yield from leaves(item, f"{path}.{name}")
        case list() if value:
            for at, item in enumerate(value):
                yield from leaves(item, f"{path}[{at}]")
        case _:
            yield path.removeprefix("."), value


def _is_different(path: str) -> bool:
    plain = path.replace("[0]", "").replace("[1]", "")
    return plain in DIFFERENT


# ── Bytes ────────────────────────────────────────────────────────────────────────────────────────


def test_our_messages_read_what_cursors_own_client_writes_byte_for_byte() -> None:
    """Seen in recordings."""
    message = AgentClientMessage.FromString(bytes.fromhex(PLAIN_TEXT))
    assert message.run_request.HasField("conversation_state")
    assert message.SerializeToString().hex() == PLAIN_TEXT


def test_136_the_conversation_state_is_always_on_the_wire() -> None:
    """Without it the service refuses; some accounts refuse an empty one too, so it always names the mode."""
    run = run_request(opened(asks("Hello")).message)
    body = run.SerializeToString()
    assert body.startswith(bytes.fromhex("0a025001"))
    assert AgentRunRequest(conversation_state=ConversationStateStructure()).SerializeToString().hex() == "0a00"


def test_the_list_of_tools_is_on_the_wire_even_if_it_is_empty() -> None:
    """Seen in recordings: `2200`."""
    assert run_request(opened(asks("Hello")).message).HasField("mcp_tools")


def test_going_on_is_these_bytes() -> None:
    """Seen in recordings: `12021200`."""
    opening = opened(asks("Hello"))
    assert bytes.fromhex("12021200") in resume_run(opening, b"")
    alone = AgentClientMessage(conversation_action=ConversationAction(resume_action=ResumeAction()))
    assert alone.SerializeToString().hex() == "22021200", "published"


def test_the_first_bytes_of_a_large_run_request_are_read_as_published() -> None:
    """Published: field 1 of 87615 bytes, in it the conversation state of 6760."""
    body = bytes.fromhex("0ae834") + bytes.fromhex("0a04") + b"abcd" + bytes.fromhex("5001")
    state_length, run_length = 0xE8 & 0x7F | 0x34 << 7, 0xBF & 0x7F | (0xAC & 0x7F) << 7 | 0x05 << 14
    assert (state_length, run_length) == (6760, 87615)
    state = ConversationStateStructure(root_prompt_messages_json=[b"abcd", b"x" * (6760 - 6 - 3 - 2)], mode=AGENT)
    assert state.ByteSize() == 6760
    assert AgentRunRequest(conversation_state=state).SerializeToString().startswith(body[:9])


# ── What is the action, what is the history ──────────────────────────────────────────────────────

CALL = ToolCall(id="call_1", name="read", arguments='{"path":"a"}')
RESULT = ToolResult(call_id="call_1", content=(Text(text="1"),))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((), "Continue."),
        ((says("user", "a"),), "a"),
        ((says("user", "a"), says("user", "b")), "a\n\nb"),
        ((says("user", "a", " ", "b"),), "a\n\nb"),
        ((says("user", RESULT, "b"),), "b"),
        ((says("user", RESULT), says("user", "b")), "b"),
        ((says("user", RESULT), says("system", "s")), "<system-reminder>\ns\n</system-reminder>"),
        ((says("user", "a"), says("system", "s")), "a\n\n<system-reminder>\ns\n</system-reminder>"),
        ((says("user", ""),), "Continue."),
    ],
)
def test_what_came_after_the_models_last_message_are_the_users_words(said: tuple[Message, ...], words: str) -> None:
    action = run_request(opened(asks("go", says("assistant", CALL), *said)).message).action
    assert action.user_message_action.user_message.text == words
    assert action.user_message_action.user_message.message_id == "message-1"


def test_results_alone_mean_that_the_model_goes_on() -> None:
    opening = opened(asks("go", says("assistant", CALL), says("user", RESULT), tools=(READ,)))
    action = run_request(opening.message).action
    assert action.WhichOneof("action") == "resume_action"
    assert action.resume_action.request_context == opening.context
    assert messages(opening)[-1]["role"] == "tool"


def test_a_mode_is_told_in_both_places() -> None:
    run = run_request(opened(replace(asks("Hello"), model="gpt-5?mode=debug")).message)
    assert run.conversation_state.mode == run.action.user_message_action.user_message.mode == 4


def test_an_option_that_does_not_exist_is_a_bad_request() -> None:
    with pytest.raises(BadRequest) as caught:
        opened(replace(asks("Hello"), model="gpt-5?colour=red"))
    assert caught.value.param == "model"


def test_max_mode_is_told_in_both_places_and_only_when_it_is_asked_for() -> None:
    asked = run_request(opened(replace(asks("Hello"), model="m?max=true")).message)
    assert asked.model_details.max_mode
    assert asked.requested_model.max_mode
    silent = run_request(opened(asks("Hello")).message)
    assert not silent.model_details.HasField("max_mode")


def test_thinking_and_effort_become_parameters_unless_that_is_switched_off() -> None:
    request = asks("Hello", reasoning=Reasoning(mode="adaptive", effort="high"))
    told = run_request(opened(request).message).requested_model.parameters
    assert [(parameter.id, parameter.value) for parameter in told] == [("thinking", "true"), ("effort", "high")]
    silent = opened(request, settings=RunSettings(reasoning=False))
    assert not run_request(silent.message).requested_model.parameters


def test_what_is_known_of_a_model_decides_which_parameters_it_is_told() -> None:
    known = CursorModel(id="m", parameters={"reasoning": ("low", "high")})
    request = asks("Hello", reasoning=Reasoning(mode="adaptive", effort="max"))
    opening = opened(request, model=known)
    told = run_request(opening.message).requested_model.parameters
    assert [(parameter.id, parameter.value) for parameter in told] == [("reasoning", "high")]
    assert "thinking" in opening.notes[0].message


# ── Images ───────────────────────────────────────────────────────────────────────────────────────


def test_the_same_picture_has_the_same_id_every_time_and_no_two_share_one() -> None:
    """The service looks pictures up by id: one that changes is not found again."""

    def ids() -> list[str]:
        run = run_request(opened(read_request(TRANSCRIPTS / "images")).message)
        return [image.uuid for image in run.action.user_message_action.user_message.selected_context.selected_images]

    first, second = ids()
    assert first != second
    assert ids() == [first, second]


def test_a_picture_that_cannot_be_read_is_named_instead() -> None:
    message = msgspec.convert({"role": "user", "parts": [{"type": "image", "data": "%%%"}]}, Message)
    opening = opened(asks(message))
    said = run_request(opening.message).action.user_message_action.user_message
    assert said.text == "[image left out: image]"
    assert not said.selected_context.selected_images
    assert "does not support it" in opening.notes[0].message


# ── System prompt and rules ──────────────────────────────────────────────────────────────────────


def test_the_system_prompt_is_a_rule_and_never_a_message() -> None:
    billing = says("system", "x-anthropic-billing-header: volatile")
    opening = opened(asks(says("system", "Be brief."), billing, says("system", "Be kind."), "Hello"))
    assert opening.context.cloud_rule == "Be brief.\n\nBe kind."
    assert opening.blobs == {}
    assert not run_request(opening.message).HasField("custom_system_prompt")


def test_without_a_system_prompt_there_is_no_rule() -> None:
    assert not opened(asks("Hello")).context.HasField("cloud_rule")


def test_searching_and_fetching_are_off_unless_they_are_switched_on() -> None:
    assert opened(asks("Hello")).context.HasField("web_search_enabled")
    assert not opened(asks("Hello")).context.web_fetch_enabled
    allowed = opened(asks("Hello"), settings=RunSettings(web_search=True, web_fetch=True)).context
    assert (allowed.web_search_enabled, allowed.web_fetch_enabled) == (True, True)


@pytest.mark.parametrize(
    ("choice", "offered", "rule"),
    [
        (ToolChoice(), ["read", "write"], ""),
        (ToolChoice(mode="none"), [], ""),
        (ToolChoice(mode="auto", names=("write",)), ["write"], ""),
        (ToolChoice(mode="required"), ["read", "write"], "one of the tools `read`, `write`"),
        (ToolChoice(mode="required", names=("read",)), ["read"], "the tool `read`"),
        (ToolChoice(parallel=False), ["read", "write"], "one tool at a time"),
    ],
)
def test_a_tool_choice_is_kept_by_what_is_offered_and_told_in_a_rule(
    choice: ToolChoice, offered: list[str], rule: str
) -> None:
    opening = opened(asks("Go", tools=(READ, ToolSpec(name="write")), tool_choice=choice))
    run = run_request(opening.message)
    assert [tool.tool_name for tool in run.mcp_tools.mcp_tools] == offered
    assert [tool.tool_name for tool in opening.context.tools] == offered
    assert bool(opening.context.cloud_rule) == bool(rule)
    assert rule in opening.context.cloud_rule
    assert bool(opening.notes) == bool(rule)


def test_a_choice_of_tools_that_are_not_there_is_a_bad_request() -> None:
    with pytest.raises(BadRequest) as caught:
        opened(asks("Go", tools=(READ,), tool_choice=ToolChoice(mode="required", names=("fly",))))
    assert caught.value.param == "tool_choice"


def test_sampling_that_cannot_be_told_is_noted() -> None:
    opening = opened(asks("Go", sampling=Sampling(max_tokens=5, temperature=0.0, stop=("END",))))
    # The token limit and the stop sequence are enforced by the gateway, so they are not left out.
    assert [note.what for note in opening.notes] == ["temperature"]


# ── Checkpoints ──────────────────────────────────────────────────────────────────────────────────

CHECKPOINT = ConversationStateStructure(root_prompt_messages_json=[b"\1" * 32], mode=AGENT).SerializeToString()


def test_a_lost_run_goes_on_from_its_checkpoint_with_the_same_ids() -> None:
    """Seen in recordings: a retry keeps the run id and the conversation id."""
    opening = opened(asks("Hi", says("assistant", "Hello!"), "And now?"), settings=RunSettings(send_blobs=True))
    before, after = run_request(opening.message), run_request(resume_run(opening, CHECKPOINT))
    assert after.conversation_state.SerializeToString() == CHECKPOINT
    assert after.action.WhichOneof("action") == "resume_action"
    assert (after.run_id, after.conversation_id) == (before.run_id, before.conversation_id)
    assert after.requested_model == before.requested_model
    assert not after.pre_fetched_blobs


def test_what_we_do_not_know_in_a_checkpoint_is_sent_back() -> None:
    unknown = CHECKPOINT + bytes.fromhex("da3e03616263")
    assert b"\xda\x3e\x03abc" in resume_run(opened(asks("Hi")), unknown)


def test_a_checkpoint_that_is_none_is_an_upstreams_failure() -> None:
    with pytest.raises(GatewayError) as caught:
        resume_run(opened(asks("Hi")), b"\xff\xff")
    assert caught.value.kind == "upstream"
    with pytest.raises(GatewayError):
        opened(asks("Hi"), checkpoint=b"\x0a\x05a")


# ── For every request ────────────────────────────────────────────────────────────────────────────


@each("history", ["blobs", "text"])
@each("name", COMMON_CASES)
def test_every_request_opens_a_run_that_can_be_read(name: str, history: str) -> None:
    opening = opened(COMMON_CASES[name], settings=msgspec.convert({"history": history}, RunSettings))
    run = run_request(opening.message)
    assert run.HasField("conversation_state")
    assert run.action.WhichOneof("action")
    assert run.model_details.model_id == run.requested_model.model_id == "test-model"
    for key, data in opening.blobs.items():
        assert key == blob_id(data)
        assert json.loads(data)["role"] in ("user", "assistant", "tool")
    assert set(run.conversation_state.root_prompt_messages_json) == set(opening.blobs)
    assert history == "blobs" or not opening.blobs


@each("name", COMMON_CASES)
def test_121_the_same_request_always_gives_the_same_bytes(name: str) -> None:
    first, second = opened(COMMON_CASES[name]), opened(COMMON_CASES[name])
    assert first.message == second.message
    assert first.blobs == second.blobs


def test_121_a_growing_conversation_keeps_the_ids_of_its_history() -> None:
    history = [says("user", "Read both.")]
    found = []
    for turn in range(4):
        calls = [ToolCall(id=f"c{turn}{n}", name="read", arguments=f'{{"path": "{n}.py"}}') for n in range(2)]
        results = [ToolResult(call_id=call.id, content=(Text(text="1"),), is_error=turn == 1) for call in calls]
        for more in ([], [says("assistant", Thinking(text="hm"), "I look.", *calls), says("user", *results)]):
            history += more
            run = run_request(opened(asks(*history, tools=(READ,))).message)
            found.append(list(run.conversation_state.root_prompt_messages_json))
        history += [says("assistant", "Done."), says("user", f"Again {turn}.")]
    for before, after in pairwise(found):
        assert after[: len(before)] == before
    assert len(found[-1]) == 15


def test_a_long_history_takes_as_many_blobs_as_messages_and_no_more_bytes_each() -> None:
    """Ours: what is done for a message does not depend on how many there are."""

    def size(turns: int) -> int:
        history = [said for turn in range(turns) for said in (says("user", f"{turn}"), says("assistant", f"{turn}"))]
        opening = opened(asks(*history, "And now?"))
        assert len(opening.blobs) == 2 * turns
        return len(opening.message)

    ten, hundred = size(10), size(100)
    assert hundred - ten <= 180 * 34 + 8
