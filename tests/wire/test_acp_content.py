"""What a user says to an agent: parts into blocks, by what the agent takes."""

import base64

import pytest

from tieline.model.content import File, Foreign, Image, Part, Text, Thinking, ToolCall
from tieline.wire.acp.content import part_of, prompt_of
from tieline.wire.acp.facts import Abilities
from tieline.wire.acp.schema import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)

ALL = Abilities(image=True, audio=True, embedded=True).prompt
NONE = Abilities().prompt

NOTES = base64.b64encode("# Notes ä".encode()).decode()
IMAGE = Image(media_type="image/png", data="AAAA")
MARKDOWN = File(media_type="text/markdown", data=NOTES, name="notes.md")
PDF = File(media_type="application/pdf", data="JVBERi0=", name="a.pdf")
SOUND = File(media_type="audio/wav", data="AAAA")


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Text(text="hello"), TextContent(text="hello")),
        (IMAGE, ImageContent(data="AAAA", mime_type="image/png")),
        (Image(data="AAAA"), ImageContent(data="AAAA", mime_type="image/png")),
        (Image(url="https://example.com/a.png"), ResourceLink(uri="https://example.com/a.png", name="image")),
        (SOUND, AudioContent(data="AAAA", mime_type="audio/wav")),
        (
            MARKDOWN,
            EmbeddedResource(
                resource=Resource(uri="attachment:///notes.md", mime_type="text/markdown", text="# Notes ä")
            ),
        ),
        (
            PDF,
            EmbeddedResource(
                resource=Resource(uri="attachment:///a.pdf", mime_type="application/pdf", blob="JVBERi0=")
            ),
        ),
        (
            File(media_type="text/plain", data="/w=="),
            EmbeddedResource(resource=Resource(uri="attachment:///file", mime_type="text/plain", blob="/w==")),
        ),
        (File(url="file:///w/a.py", name="a.py"), ResourceLink(uri="file:///w/a.py", name="a.py")),
    ],
    ids=repr,
)
def test_an_agent_that_takes_everything_gets_everything(part: Part, block: ContentBlock) -> None:
    assert prompt_of([part], ALL) == ([block], ())


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Text(text="hello"), TextContent(text="hello")),
        (MARKDOWN, TextContent(text="notes.md:\n\n# Notes ä")),
        (Image(url="https://example.com/a.png"), ResourceLink(uri="https://example.com/a.png", name="image")),
    ],
    ids=repr,
)
def test_text_and_links_are_taken_by_every_agent(part: Part, block: ContentBlock) -> None:
    assert prompt_of([part], NONE) == ([block], ())


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (IMAGE, "image/png"),
        (Image(data="AAAA"), "image"),
        (PDF, "a.pdf"),
        (SOUND, "audio/wav"),
        (File(data="AAAA", name="zeros"), "zeros"),
        (File(data="AAAA"), "file"),
    ],
)
def test_what_an_agent_does_not_take_is_named_and_noted(part: Part, name: str) -> None:
    (block,), (note,) = prompt_of([part], NONE)
    assert block == TextContent(text=f"[{name} omitted: this agent does not accept it]")
    assert name in note.message


def test_what_is_no_content_of_a_prompt_is_left_out() -> None:
    others: list[Part] = [
        Text(text=""),
        Thinking(text="hm"),
        ToolCall(id="1", name="x"),
        Foreign(protocol="p", kind="k", json="{}"),
    ]
    assert prompt_of(others, ALL) == ([], ())


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TextContent(text="half \ud83d"), Text(text="half \ufffd")),
        (ImageContent(data="", mime_type="image/png", uri="file:///a"), Image(media_type="image/png", url="file:///a")),
        (ResourceLink(uri="file:///a", name="a", title="The a"), File(url="file:///a", name="The a")),
    ],
    ids=repr,
)
def test_a_block_is_a_part(block: ContentBlock, part: Part) -> None:
    assert part_of(block) == part
