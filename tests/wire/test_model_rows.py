"""Lists of models of OpenAI-like upstreams, each with fields of its own."""

import json
from typing import Any

import pytest

from tests.each import each
from tieline.model.ports import ModelInfo
from tieline.wire.openai_chat.models import render_model
from tieline.wire.shared.json import Malformed
from tieline.wire.shared.model_rows import read_models

OPENROUTER = {
    "id": "anthropic/claude-x",
    "name": "Anthropic: Claude X",
    "created": 1_759_161_676,
    "context_length": 1_000_000,
    "architecture": {"modality": "text+image->text", "input_modalities": ["text", "image", "file"]},
    "pricing": {"prompt": "0.000003"},
    "top_provider": {"context_length": 1_000_000, "max_completion_tokens": 64_000, "is_moderated": False},
    "supported_parameters": ["include_reasoning", "max_tokens", "reasoning", "tool_choice", "tools"],
}
VLLM = {"id": "qwen", "object": "model", "created": 1_700_000_000, "owned_by": "vllm", "max_model_len": 32_768}
GROQ = {"id": "llama", "object": "model", "created": 1, "context_window": 131_072, "max_completion_tokens": 8_192}
MISTRAL = {
    "id": "large",
    "name": "large",
    "created": 1,
    "max_context_length": 131_072,
    "capabilities": {"completion_chat": True, "function_calling": True, "vision": False},
}
FIREWORKS = {"id": "f", "context_length": 4_096, "supports_tools": False, "supports_image_input": True}
LIST_OF_WORDS = {"id": "w", "capabilities": ["completion", "tools", "vision", "thinking"]}
MOONSHOT = {"id": "k", "context_length": 262_144, "supports_image_in": False, "supports_reasoning": False}

ROWS = [
    (
        OPENROUTER,
        ModelInfo(
            id="anthropic/claude-x",
            title="Anthropic: Claude X",
            created=1_759_161_676,
            context=1_000_000,
            max_output=64_000,
            inputs=("text", "image", "file"),
            tools=True,
            thinks=True,
        ),
    ),
    (VLLM, ModelInfo(id="qwen", created=1_700_000_000, context=32_768)),
    (GROQ, ModelInfo(id="llama", created=1, context=131_072, max_output=8_192)),
    (MISTRAL, ModelInfo(id="large", created=1, context=131_072, inputs=("text",), tools=True)),
    (FIREWORKS, ModelInfo(id="f", context=4_096, inputs=("text", "image"), tools=False)),
    (LIST_OF_WORDS, ModelInfo(id="w", inputs=("text", "image"), tools=True, thinks=True)),
    (MOONSHOT, ModelInfo(id="k", context=262_144, inputs=("text",), thinks=False, efforts=())),
    ({"id": "gpt-x", "object": "model", "created": 5, "owned_by": "system"}, ModelInfo(id="gpt-x", created=5)),
    ({"id": "a", "supported_parameters": ["max_tokens"]}, ModelInfo(id="a", tools=False, thinks=False, efforts=())),
    ({"id": "a", "input_modalities": ["text", "pdf", "smell"]}, ModelInfo(id="a", inputs=("text", "file"))),
    (
        {"id": "a", "context_length": "128k", "max_output_tokens": 0, "created": "now", "capabilities": 3, "name": []},
        ModelInfo(id="a"),
    ),
    ({"id": "a", "context_length": None, "context_window": 8_192.0}, ModelInfo(id="a", context=8_192)),
    ({"id": "a", "context_length": True, "max_model_len": 1e300}, ModelInfo(id="a")),
]


def listed(*rows: Any) -> bytes:
    return json.dumps({"object": "list", "data": rows}).encode()


@each(("row", "info"), ROWS)
def test_what_servers_report_is_read(row: dict[str, Any], info: ModelInfo) -> None:
    assert read_models(listed(row)) == [info]


def test_another_gateway_reports_everything() -> None:
    info = ModelInfo(
        id="m",
        title="M",
        created=7,
        context=200_000,
        max_output=32_000,
        inputs=("text", "image", "audio"),
        tools=False,
        thinks=True,
        efforts=("minimal", "high"),
    )
    assert read_models(listed(json.loads(render_model("m", info)))) == [info]


def test_entries_without_an_id_are_left_out() -> None:
    assert read_models(listed({"name": "a"}, {"id": 3}, {"id": ""}, None, "b", {"id": "c"})) == [ModelInfo(id="c")]


@each("body", [b'[{"id":"a"}]', b'{"data":[{"id":"a"}],"object":"list"}'])
def test_a_bare_list_is_accepted(body: bytes) -> None:
    assert read_models(body) == [ModelInfo(id="a")]


@each("body", [b"{}", b"[]", b'{"data":[]}'])
def test_a_list_may_be_empty(body: bytes) -> None:
    assert read_models(body) == []


@each(
    "body", [b"", b"<html>", b'{"data":{}}', b"3", b'"x"', b"null", b'{"data":null}', b"[" * 100_000, b'{"a":"\xff"}']
)
def test_what_is_no_list_is_rejected(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_models(body)
