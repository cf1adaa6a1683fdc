"""Earlier messages as JSON messages and as text, and where a conversation is cut."""

import json
from typing import Any

import pytest

from tests.cases import PIXEL, asks, says
from tests.each import each
from tieline.model.content import File, Foreign, Image, Message, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Note
from tieline.model.request import ToolSpec
from tieline.wire.cursor.opening.history import HistoryEncoder, split_messages
from tieline.wire.cursor.opening.offered_tools import OfferedTools

OFFER = OfferedTools.of([ToolSpec(name="read"), ToolSpec(name="Task")])
IMAGE = Image(media_type="image/png", data=PIXEL)


def told(*messages: Message, notes: list[Note] | None = None) -> list[Any]:
    history = HistoryEncoder(OFFER, [] if notes is None else notes)
    return [json.loads(message) for message in history.messages(messages)]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def call(arguments: str = "{}", name: str = "read", **fields: Any) -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments, **fields)


def result(*content: Text | Image | File, **fields: Any) -> ToolResult:
    return ToolResult(call_id="c1", content=content, **fields)


# ── Cutting ──────────────────────────────────────────────────────────────────────────────────────


@each(
    ("roles", "system", "past", "last"),
    [
        ("", 0, 0, 0),
        ("s", 1, 0, 0),
        ("u", 0, 0, 1),
        ("ssu", 2, 0, 1),
        ("sua", 1, 2, 0),
        ("suau", 1, 2, 1),
        ("suauu", 1, 2, 2),
        ("suausu", 1, 2, 3),
        ("suas", 1, 2, 1),
        ("a", 0, 1, 0),
    ],
)
def test_a_conversation_is_cut_after_the_models_last_message(roles: str, system: int, past: int, last: int) -> None:
    meaning = {"s": says("system", "x"), "u": says("user", "x"), "a": says("assistant", "x")}
    talk = split_messages([meaning[role] for role in roles])
    assert (len(talk.system), len(talk.past), len(talk.last)) == (system, past, last)


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


def test_words_are_parts_of_text() -> None:
    assert told(says("user", "a", "b"), says("assistant", "c")) == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c")]},
    ]


def test_a_message_that_says_nothing_is_left_out() -> None:
    assert told(says("user", "", "  "), says("assistant"), says("system", " ")) == []


def test_letters_are_kept_as_they_are() -> None:
    (message,) = HistoryEncoder(OFFER, []).messages([says("user", "é 日本 😀")])
    assert message == '{"role":"user","content":[{"type":"text","text":"é 日本 😀"}]}'.encode()


def test_a_system_message_between_others_is_a_reminder_of_the_user() -> None:
    """Reported: the service drops system messages of the history."""
    assert told(says("system", "a", "b"), says("system", "<system-reminder>c</system-reminder>")) == [
        {"role": "user", "content": [text("<system-reminder>\na\n\nb\n</system-reminder>")]},
        {"role": "user", "content": [text("<system-reminder>c</system-reminder>")]},
    ]


def test_calls_and_results_have_the_names_that_the_model_sees() -> None:
    messages = told(
        says("assistant", call('{"path": "a", "n": 1.0}')),
        says("user", result(Text(text="1"))),
        says("assistant", ToolCall(id="c2", name="Task", arguments="{}")),
        says("user", ToolResult(call_id="c2", content=(Text(text="no"),), is_error=True)),
    )
    assert [message["content"] for message in messages] == [
        [{"type": "tool-call", "toolCallId": "c1", "toolName": "mcp_tieline_read", "args": {"path": "a", "n": 1.0}}],
        [{"type": "tool-result", "toolCallId": "c1", "toolName": "mcp_tieline_read", "result": "1"}],
        [{"type": "tool-call", "toolCallId": "c2", "toolName": "mcp_tieline_client_Task", "args": {}}],
        [
            {
                "type": "tool-result",
                "toolCallId": "c2",
                "toolName": "mcp_tieline_client_Task",
                "result": "no",
                "isError": True,
            }
        ],
    ]
    assert [message["role"] for message in messages] == ["assistant", "tool"] * 2


def test_142_arguments_are_told_whole_and_as_they_came() -> None:
    """However long they are."""
    arguments = json.dumps({"content": "x" * 1_000_000, "n": 12345678901234567890})
    (message,) = HistoryEncoder(OFFER, []).messages([says("assistant", call(arguments))])
    assert arguments.encode() in message


@pytest.mark.parametrize(
    ("given", "args", "noted"),
    [
        ("", {}, False),
        ("null", {}, False),
        ("[1]", {"value": [1]}, False),
        ('"{\\"a\\":1}"', {"a": 1}, False),
        ('{"a":', {"_invalid_json": '{"a":'}, True),
    ],
)
def test_arguments_are_an_object_whatever_they_were(given: str, args: Any, noted: bool) -> None:
    notes: list[Note] = []
    (message,) = told(says("assistant", call(given)), notes=notes)
    assert message["content"][0]["args"] == args
    assert bool(notes) == noted


def test_a_freeform_call_has_its_text_as_the_one_argument() -> None:
    (message,) = told(says("assistant", call('*** {"not": json', freeform=True)))
    assert message["content"][0]["args"] == {"input": '*** {"not": json'}


def test_a_result_and_words_are_two_messages() -> None:
    messages = told(says("assistant", call()), says("user", "first", result(Text(text="1")), "last"))
    assert [message["role"] for message in messages] == ["assistant", "tool", "user"]
    assert messages[2]["content"] == [text("first"), text("last")]


def test_several_texts_of_a_result_are_one() -> None:
    (_, message) = told(says("assistant", call()), says("user", result(Text(text="a"), Text(text="b"))))
    assert message["content"][0]["result"] == "a\nb"


def test_an_empty_result_is_a_result() -> None:
    (_, message) = told(says("assistant", call()), says("user", result()))
    assert message["content"][0]["result"] == ""


def test_a_result_without_its_call_still_has_a_name() -> None:
    (message,) = told(says("user", result(Text(text="1"))))
    assert message["content"][0]["toolName"] == "mcp_tieline_unknown"


# ── Pictures, files, thoughts ────────────────────────────────────────────────────────────────────


def test_a_picture_of_the_history_is_an_address_with_its_data() -> None:
    """Reported: bare base64 fails the whole request."""
    (message,) = told(says("user", IMAGE))
    assert message["content"] == [
        {"type": "image", "image": f"data:image/png;base64,{PIXEL}", "mediaType": "image/png"}
    ]


def test_a_picture_in_a_result_follows_it() -> None:
    (_, tool, user) = told(says("assistant", call()), says("user", result(Text(text="here"), IMAGE)))
    assert tool["content"][0]["result"] == "here\n[image: it follows in the next message]"
    assert [part["type"] for part in user["content"]] == ["text", "image"]
    assert "c1" in user["content"][0]["text"]


@pytest.mark.parametrize(
    ("part", "expected", "noted"),
    [
        (Image(url="https://example.com/a.png"), "[image: https://example.com/a.png]", True),
        (File(url="https://example.com/a.pdf"), "[file: https://example.com/a.pdf]", True),
        (File(media_type="text/plain", data="aGk=", name="a.txt"), '<file name="a.txt">\nhi\n</file>', False),
        (File(media_type="application/json", data="e30="), '<file name="application/json">\n{}\n</file>', False),
        (File(media_type="application/pdf", data="JVBERi0=", name="a.pdf"), "[file left out: a.pdf]", True),
        (File(media_type="text/plain", data="/////w=="), "[file left out: text/plain]", True),
        (File(data="AAAA", name="zeros"), "[file left out: zeros]", True),
        (File(data="%%%", name="broken"), "[file left out: broken]", True),
        (Image(), "[image left out: image]", True),
    ],
)
def test_what_cannot_be_sent_is_named_in_words(part: Image | File, expected: str, noted: bool) -> None:
    notes: list[Note] = []
    assert told(says("user", part), notes=notes) == [{"role": "user", "content": [text(expected)]}]
    assert bool(notes) == noted
    in_result = told(says("assistant", call()), says("user", result(part)))
    assert in_result[1]["content"][0]["result"] == expected


def test_thoughts_are_told_if_they_have_no_signature() -> None:
    notes: list[Note] = []
    signed = Thinking(text="secret", signature="c2ln")
    (message,) = told(
        says("assistant", Thinking(text="hm"), signed, Thinking(signature="x", redacted=True), "a"), notes=notes
    )
    assert message["content"] == [{"type": "reasoning", "text": "hm"}, text("a")]
    assert [note.kind for note in notes] == ["left_out"] * 2


def test_a_part_of_another_protocol_is_left_out_and_noted() -> None:
    notes: list[Note] = []
    foreign = Foreign(protocol="x", kind="server_search", json="{}")
    assert told(says("user", foreign, "a"), says("assistant", foreign), notes=notes) == [
        {"role": "user", "content": [text("a")]}
    ]
    assert all("server_search" in note.message for note in notes)
    assert len(notes) == 2


# ── As text ──────────────────────────────────────────────────────────────────────────────────────


def test_a_history_as_text_names_who_said_what() -> None:
    notes: list[Note] = []
    request = asks(
        says("user", "Look.", IMAGE),
        says("assistant", Thinking(text="hm"), call('{"path":"a"}')),
        says("user", result(Text(text="no such file"), is_error=True)),
    )
    assert HistoryEncoder(OFFER, notes).text(request.messages) == (
        "<user>\nLook.\n[image: image/png]\n</user>\n"
        '<assistant>\n<thinking>\nhm\n</thinking>\n<call id="c1" tool="mcp_tieline_read">{"path":"a"}</call>\n'
        "</assistant>\n"
        '<tool>\n<result id="c1" tool="mcp_tieline_read" failed="true">\nno such file\n</result>\n</tool>'
    )
    assert [note.kind for note in notes] == ["left_out"]
