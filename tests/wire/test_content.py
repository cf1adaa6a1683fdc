"""What becomes of a user's content in another protocol: it is carried over, or the request is refused."""

import json
from typing import Any

import pytest

from tests.cases import PDF, PIXEL, READ, asks, says
from tests.catalogue.asking import ask_anything, asking, user
from tests.codecs import CODECS
from tieline.model.content import File, Foreign, Image, Text, Thinking, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.wire.anthropic import Dialect, build_request

SEARCH = {
    "type": "search_result",
    "source": "https://example.org",
    "title": "A title",
    "content": [{"type": "text", "text": "found"}, {"type": "text", "text": "more"}],
}
TEXT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Words."}, "title": "c.txt"}
CONTENT = {
    "type": "document",
    "source": {"type": "content", "content": [{"type": "text", "text": "Chunk."}]},
    "title": "d",
    "context": "About d.",
}


def sent(client: Any, upstream: Any, *content: Any) -> Any:
    said = asking(client, [{"role": "user", "content": [*content, {"type": "text", "text": "?"}]}])
    return ask_anything(said, client, upstream).body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (SEARCH, "A title\nhttps://example.org\n\nfound\n\nmore"),
        (TEXT, "c.txt\n\nWords."),
        (CONTENT, "d\nAbout d.\n\nChunk."),
        ({**CONTENT, "source": {"type": "content", "content": "Chunk."}}, "d\nAbout d.\n\nChunk."),
    ],
)
def test_texts_with_a_title_are_text_elsewhere_and_themselves_at_home(block: Any, text: str) -> None:
    assert text in json.dumps(sent("anthropic", "openai_chat", block)).replace("\\n", "\n")
    assert sent("anthropic", "anthropic", block)[0] == block


def test_a_search_result_in_a_tool_result_is_text_elsewhere() -> None:
    history: list[Any] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "find", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [SEARCH]}]},
    ]
    messages = ask_anything(asking("anthropic", history), "anthropic", "openai_chat").body["messages"]
    assert messages[2]["content"] == "A title\nhttps://example.org\n\nfound\n\nmore"


def test_pdfs_and_images_are_carried_both_ways() -> None:
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    file, _ = sent("anthropic", "openai_chat", pdf)
    assert file["file"]["file_data"] == f"data:application/pdf;base64,{PDF}"
    document, _ = sent("openai_chat", "anthropic", file)
    assert document["source"] == pdf["source"]
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    assert sent("openai_chat", "anthropic", sent("anthropic", "openai_chat", image)[0])[0] == image


@pytest.mark.parametrize(
    ("client", "upstream", "block", "at"),
    [
        ("anthropic", "openai_chat", {"type": "image", "source": {"type": "file", "file_id": "f"}}, ""),
        ("anthropic", "openai_chat", {"type": "document", "source": {"type": "file", "file_id": "f"}}, ""),
        ("anthropic", "openai_chat", {"type": "container_upload", "file_id": "f"}, ""),
        ("openai_chat", "anthropic", {"type": "file", "file": {"file_id": "f"}}, ""),
        ("openai_chat", "anthropic", {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}, ""),
        ("openai_chat", "anthropic", {"type": "video_url", "video_url": {"url": "https://a.example/v.mp4"}}, ""),
        (
            "openai_chat",
            "anthropic",
            {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,eA=="}},
            ".image_url.url",
        ),
    ],
)
def test_what_cannot_be_carried_is_refused_with_its_path_and_what_is_taken(
    client: Any, upstream: Any, block: Any, at: str
) -> None:
    with pytest.raises(BadRequest, match="expected text, images") as refused:
        sent(client, upstream, {"type": "text", "text": "Look:"}, block)
    assert refused.value.param == f"messages[0].content[1]{at}"
    assert sent(client, client, block)[0] == block


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Image(media_type="image/png", data=PIXEL), "[image left out: image/png]"),
        (Image(url="https://example.org/a.png"), "[image left out: image]"),
        (File(media_type="application/pdf", data=PDF, name="a.pdf"), "[file left out: a.pdf]"),
        (File(url="https://example.org/a.pdf"), "[file left out: file]"),
    ],
)
def test_what_an_answer_cannot_contain_is_named_in_its_place(part: Image | File, text: str) -> None:
    outgoing = build_request(asks(says("user", "?"), says("assistant", part)), Dialect(cache="off"))
    assert json.loads(outgoing.body)["messages"][1]["content"] == [{"type": "text", "text": text}]
    assert [note.what for note in outgoing.notes] == [text.strip("[]").replace(" left out:", "")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "document_url", "document_url": "https://a.example/a.pdf"},
        {"type": "document_url", "document_url": "https://a.example/a.pdf", "document_name": "a"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://a.example/a.pdf"}},
    ],
)
def test_documents_by_their_address_pass_to_upstreams_that_take_them(part: Any) -> None:
    assert sent("openai_chat", "openai_chat", part)[0] == part
    document, _ = sent("openai_chat", "anthropic", part)
    assert document["source"] == {"type": "url", "url": "https://a.example/a.pdf"}


def test_thinking_as_a_list_in_the_content_of_an_answer_passes() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    content = [thinking, {"type": "text", "text": "Hi"}]
    history: list[Any] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": content}]
    said = asking("openai_chat", history, user("And?"))
    assert ask_anything(said, "openai_chat", "openai_chat").body["messages"][1]["content"] == content
    elsewhere = ask_anything(said, "openai_chat", "anthropic")
    assert elsewhere.body["messages"][1]["content"] == [{"type": "text", "text": "Hi"}]
    assert [note.what for note in elsewhere.notes] == ["thinking"]


def test_the_summary_of_a_compacted_conversation_is_told_elsewhere() -> None:
    block = {"type": "compaction", "content": "So far: nothing."}
    said = asking("anthropic", [{"role": "user", "content": "a"}, {"role": "assistant", "content": [block]}])
    assert ask_anything(said, "anthropic", "openai_chat").body["messages"][1]["content"] == "So far: nothing."
    assert ask_anything(said, "anthropic", "anthropic").body["messages"][1]["content"] == [block]


@pytest.mark.parametrize(
    "part", [Image(media_type="image/tiff", data=PIXEL), File(media_type="application/zip", data="SGk=", name="a.zip")]
)
def test_in_a_result_of_a_tool_a_line_stands_for_what_the_api_does_not_take(part: Image | File) -> None:
    shown = ToolResult(call_id="c1", content=(Text(text="see"), part))
    call = ToolCall(id="c1", name="read", arguments="{}")
    outgoing = build_request(asks("a", says("assistant", call), says("user", shown), tools=(READ,)))
    (block,) = json.loads(outgoing.body)["messages"][2]["content"]
    assert "left out" in block["content"][1]["text"]
    assert [note.kind for note in outgoing.notes] == ["left_out"]


@pytest.mark.parametrize("allowed", [True, False])
def test_unsigned_thinking_is_given_back_only_where_it_is_allowed(allowed: bool) -> None:
    request = asks("a", says("assistant", Thinking(text="hm"), "b"), "c")
    outgoing = build_request(request, Dialect(unsigned_thinking=allowed))
    content = json.loads(outgoing.body)["messages"][1]["content"]
    assert [block["type"] for block in content] == (["thinking", "text"] if allowed else ["text"])
    assert [note.what for note in outgoing.notes] == ([] if allowed else ["thinking"])


def test_blocks_of_another_protocol_in_an_answer_are_left_out_with_a_note() -> None:
    foreign = Foreign(protocol="other", kind="hologram", json="{}")
    outgoing = build_request(asks("a", says("assistant", "b", foreign), "c"))
    assert len(json.loads(outgoing.body)["messages"][1]["content"]) == 1
    assert [note.what for note in outgoing.notes] == ["hologram"]


# ── Fields of a message, an image or a file ──────────────────────────────────────────────────────

PICTURE = {"url": "https://example.com/a.png", "detail": "low"}
IN_CHAT = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": PICTURE}]}]}
IN_RESPONSES = {
    "input": [{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE["url"], "detail": "low"}]}]
}


def crossed(client: str, upstream: str, body: dict[str, Any]) -> tuple[Any, list[str | None]]:
    """What an upstream receives of a request, and what is reported as dropped."""
    request = CODECS[client].parse(json.dumps({"model": "m", **body}).encode())
    built = CODECS[upstream].build(request)
    return json.loads(built.body), [note.what for note in built.notes]


def test_the_resolution_of_an_image_is_carried_between_the_apis_that_have_it() -> None:
    body, dropped = crossed("openai_chat", "openai_responses", IN_CHAT)
    assert (body["input"][0]["content"], dropped) == (IN_RESPONSES["input"][0]["content"], [])
    body, dropped = crossed("openai_responses", "openai_chat", IN_RESPONSES)
    assert (body["messages"][0]["content"], dropped) == (IN_CHAT["messages"][0]["content"], [])


@pytest.mark.parametrize(("client", "said"), [("openai_chat", IN_CHAT), ("openai_responses", IN_RESPONSES)])
def test_the_resolution_of_an_image_is_reported_where_there_is_none(client: str, said: dict[str, Any]) -> None:
    assert crossed(client, "anthropic", said)[1] == ["detail"]
    automatic = json.loads(json.dumps(said).replace('"low"', '"auto"'))
    assert crossed(client, "anthropic", automatic)[1] == []


@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses"])
def test_the_context_and_the_citations_of_a_file_are_reported_elsewhere(upstream: str) -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    block = {"type": "document", "source": source, "context": "About a.", "citations": {"enabled": True}}
    said = asking("anthropic", [{"role": "user", "content": [block]}])
    assert crossed("anthropic", upstream, said)[1] == ["context", "citations"]
    assert crossed("anthropic", "anthropic", said)[1] == []


@pytest.mark.parametrize("upstream", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_the_name_of_a_speaker_is_reported_elsewhere(role: str, upstream: str) -> None:
    said = asking("openai_chat", [{"role": role, "content": "Hi", "name": "ann"}])
    assert crossed("openai_chat", upstream, said)[1] == ["name"]
    assert crossed("openai_chat", "openai_chat", said)[1] == []
