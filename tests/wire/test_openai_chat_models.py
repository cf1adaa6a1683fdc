"""Lists of models as OpenAI's clients, Codex and Cursor's build for private inference read them."""

import json
from typing import Any

from openai.types import Model

from tieline.model.ports import ModelInfo
from tieline.wire.openai_chat.codex_models import INSTRUCTIONS
from tieline.wire.openai_chat.models import render_model, render_models

APIS = ("chat_completions", "responses", "anthropic_messages")
DEEP = ModelInfo(
    id="deep",
    owner="up",
    title="Deep",
    created=1_700_000_000,
    context=200_000,
    max_output=32_000,
    inputs=("text", "image", "file"),
    tools=True,
    thinks=True,
    efforts=("low", "medium", "high", "max"),
)
PLAIN = ModelInfo(id="plain", owner="up", context=32_000, inputs=("text",), tools=False, thinks=False, efforts=())
UNKNOWN = ModelInfo(id="x", owner="up")


def item(info: ModelInfo) -> Any:
    return json.loads(render_model(f"up/{info.id}", info, APIS))


def test_a_well_known_model_is_listed_with_the_fields_of_compatible_servers() -> None:
    assert item(DEEP) == {
        "id": "up/deep",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "up",
        "display_name": "Deep",
        "context_length": 200_000,
        "context_window": 200_000,
        "max_model_len": 200_000,
        "max_output_tokens": 32_000,
        "max_completion_tokens": 32_000,
        "architecture": {
            "modality": "text+image+file->text",
            "input_modalities": ["text", "image", "file"],
            "output_modalities": ["text"],
        },
        "supported_parameters": [
            *("max_tokens", "stop", "tools", "tool_choice", "reasoning", "include_reasoning", "reasoning_effort")
        ],
        "api_types": ["chat_completions", "responses", "anthropic_messages"],
        "capabilities": {
            "context_length": 200_000,
            "max_output_tokens": 32_000,
            "input_modalities": ["text", "image", "file"],
            "supports_vision": True,
            "supports_reasoning": True,
            "reasoning_effort": ["low", "medium", "high", "max"],
            "output_modalities": ["text"],
            "supports_tools": True,
            "supports_tool_use": True,
            "supports_streaming": True,
        },
    }


def test_what_a_model_cannot_do_is_said() -> None:
    found = item(PLAIN)
    assert found["supported_parameters"] == ["max_tokens", "stop"]
    assert found["capabilities"] == {
        "context_length": 32_000,
        "input_modalities": ["text"],
        "supports_vision": False,
        "supports_reasoning": False,
        "output_modalities": ["text"],
        "supports_tools": False,
        "supports_tool_use": False,
        "supports_streaming": True,
    }


def test_what_is_not_known_is_left_out_except_what_a_row_needs_to_be_listed() -> None:
    assert item(UNKNOWN) == {
        "id": "up/x",
        "object": "model",
        "created": 0,
        "owned_by": "up",
        "api_types": ["chat_completions", "responses", "anthropic_messages"],
        "capabilities": {
            "output_modalities": ["text"],
            "supports_tools": True,
            "supports_tool_use": True,
            "supports_streaming": True,
        },
    }


def test_the_official_sdk_accepts_every_row() -> None:
    for info in (DEEP, PLAIN, UNKNOWN):
        assert Model.model_validate(item(info), strict=True).id == f"up/{info.id}"


def codex(**models: ModelInfo) -> Any:
    listed = json.loads(render_models(models, APIS, include_codex=True))
    assert listed["object"] == "list"
    assert [row["id"] for row in listed["data"]] == list(models)
    return listed["models"]


def test_codex_gets_a_complete_entry() -> None:
    first, second = codex(fast=PLAIN, deep=DEEP)
    assert first["priority"] == 1
    assert second == {
        "slug": "deep",
        "display_name": "Deep",
        "description": None,
        "default_reasoning_level": "medium",
        # Some versions of Codex do not know `max` and would reject the whole list.
        "supported_reasoning_levels": [
            {"effort": "low", "description": "Fast answers with little reasoning"},
            {"effort": "medium", "description": "A balance of speed and depth"},
            {"effort": "high", "description": "More reasoning for hard problems"},
        ],
        "shell_type": "default",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 2,
        "availability_nux": None,
        "upgrade": None,
        "base_instructions": INSTRUCTIONS,
        "supports_reasoning_summaries": True,
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "supports_parallel_tool_calls": True,
        "context_window": 200_000,
        "max_context_window": 200_000,
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"],
    }


def test_codex_gets_safe_values_for_what_is_not_known() -> None:
    (entry,) = codex(x=UNKNOWN)
    assert entry["display_name"] == "x"
    assert entry["context_window"] == 128_000
    assert entry["input_modalities"] == ["text"]
    assert (entry["supported_reasoning_levels"], entry["default_reasoning_level"]) == ([], None)
    assert (entry["shell_type"], entry["apply_patch_tool_type"]) == ("default", "freeform")


def test_codex_offers_no_tools_to_a_model_without_them() -> None:
    (entry,) = codex(plain=PLAIN)
    assert (entry["shell_type"], entry["apply_patch_tool_type"]) == ("disabled", None)
    assert entry["supports_parallel_tool_calls"] is False


def test_without_codex_there_is_no_second_list() -> None:
    assert list(json.loads(render_models({"x": UNKNOWN}))) == ["object", "data"]
