"""Lists of models as Anthropic's clients read them, and as its API sends them."""

import json
from typing import Any

import anthropic
import pytest
from anthropic.types.beta import BetaModelInfo

from tests.each import each
from tieline.model.errors import BadRequest
from tieline.model.ports import ModelInfo
from tieline.wire.anthropic.models import ModelPage, parse_page, read_models, render_model, render_models

YES, NO = {"supported": True}, {"supported": False}
DEEP = ModelInfo(
    id="deep",
    owner="up",
    title="Deep",
    created=1_700_000_000,
    context=200_000,
    max_output=32_000,
    inputs=("text", "image"),
    tools=True,
    thinks=True,
    efforts=("low", "high", "max"),
)
UNKNOWN = ModelInfo(id="x", owner="up")


def item(info: ModelInfo) -> Any:
    return json.loads(render_model(f"up/{info.id}", info))


def test_a_well_known_model_is_listed_with_limits_and_capabilities() -> None:
    assert item(DEEP) == {
        "type": "model",
        "id": "up/deep",
        "display_name": "Deep",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 32_000,
        "capabilities": {
            "batch": NO,
            "citations": NO,
            "code_execution": NO,
            "context_management": NO,
            "server_tools": {"supported": False, "web_search": NO, "code_execution": NO},
            "structured_outputs": YES,
            "image_input": YES,
            "pdf_input": NO,
            "thinking": {
                "supported": True,
                "types": {"adaptive": YES, "enabled": YES, "disabled": YES, "between_tools": NO},
            },
            "effort": {"supported": True, "low": YES, "medium": NO, "high": YES, "xhigh": NO, "max": YES},
        },
    }


def test_what_is_not_known_is_left_out() -> None:
    assert item(UNKNOWN) == {
        "type": "model",
        "id": "up/x",
        "display_name": "up/x",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
    }


@each("info", [DEEP, UNKNOWN])
def test_the_official_sdk_accepts_every_row(info: ModelInfo) -> None:
    assert anthropic.types.ModelInfo.model_validate(item(info)).lifecycle == "active"
    assert BetaModelInfo.model_validate(item(info)).display_name == item(info)["display_name"]


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────

MODELS = {name: ModelInfo(id=name) for name in ("a", "b", "c", "d")}
PAGES = [
    (ModelPage(), ["a", "b", "c", "d"], False),
    (ModelPage(limit=4), ["a", "b", "c", "d"], False),
    (ModelPage(limit=3), ["a", "b", "c"], True),
    (ModelPage(limit=2, after_id="b"), ["c", "d"], False),
    (ModelPage(limit=1, after_id="b"), ["c"], True),
    (ModelPage(after_id="d"), [], False),
    (ModelPage(limit=2, before_id="d"), ["b", "c"], True),
    (ModelPage(limit=2, before_id="c"), ["a", "b"], False),
    (ModelPage(before_id="a"), [], False),
]


@each(("page", "names", "has_more"), PAGES)
def test_a_page_contains_the_models_next_to_its_cursor(page: ModelPage, names: list[str], has_more: bool) -> None:
    listed = json.loads(render_models(MODELS, page))
    assert [row["id"] for row in listed.pop("data")] == names
    ends = (names[0], names[-1]) if names else (None, None)
    assert listed == {"has_more": has_more, "first_id": ends[0], "last_id": ends[1]}


def test_a_query_is_parsed() -> None:
    assert parse_page({"limit": ["20"], "after_id": ["up/x"], "beta": ["true"]}) == ModelPage(limit=20, after_id="up/x")
    assert parse_page({"before_id": ["b"]}) == ModelPage(limit=1000, before_id="b")


@each("limit", ["0", "1001", "-1", "many", "1e3", "٣", "9" * 5000])
def test_a_limit_out_of_range_is_rejected(limit: str) -> None:
    with pytest.raises(BadRequest, match="`limit`: expected a number from 1 to 1000") as caught:
        parse_page({"limit": [limit]})
    assert caught.value.param == "limit"


def test_a_page_has_one_cursor_and_it_must_be_listed() -> None:
    with pytest.raises(BadRequest, match="only one of"):
        parse_page({"after_id": ["a"], "before_id": ["c"]})
    with pytest.raises(BadRequest, match="`after_id`: there is no model `z`"):
        render_models(MODELS, ModelPage(after_id="z"))
    with pytest.raises(BadRequest, match="`before_id`: there is no model `z`"):
        render_models(MODELS, ModelPage(before_id="z"))


# ── Upstreams ────────────────────────────────────────────────────────────────────────────────────

LISTED: dict[str, Any] = {
    "type": "model",
    "id": "claude-x",
    "display_name": "Claude X",
    "created_at": "2025-09-29T00:00:00Z",
    "lifecycle": "deprecated",
    "line": "opus",
    "retires_at": "2027-01-01T00:00:00Z",
    "max_input_tokens": 1_000_000,
    "max_tokens": 64_000,
    "capabilities": {
        "batch": YES,
        "citations": YES,
        "code_execution": YES,
        "context_management": {"supported": True, "compact_20260112": YES},
        "effort": {"supported": True, "low": YES, "medium": YES, "high": YES, "max": NO, "xhigh": None},
        "image_input": YES,
        "pdf_input": YES,
        "server_tools": {"supported": True, "web_search": YES, "code_execution": NO},
        "structured_outputs": YES,
        "thinking": {"supported": True, "types": {"adaptive": NO, "enabled": YES, "disabled": YES}},
    },
}


def read(**changes: Any) -> ModelInfo:
    (info,) = read_models(json.dumps({"data": [{**LISTED, **changes}]}).encode())
    return info


def test_limits_and_capabilities_of_an_upstream_are_read() -> None:
    info = read()
    assert (info.id, info.title, info.created) == ("claude-x", "Claude X", 1_759_104_000)
    assert (info.context, info.max_output) == (1_000_000, 64_000)
    assert info.inputs == ("text", "image", "file")
    assert info.thinks is True
    assert info.efforts == ("low", "medium", "high")


def test_clients_of_the_same_protocol_get_what_the_upstream_said() -> None:
    shown = item(read())
    assert (shown["lifecycle"], shown["line"]) == ("deprecated", "opus")
    assert shown["retires_at"] == "2027-01-01T00:00:00Z"
    capabilities = shown["capabilities"]
    assert capabilities["batch"] == NO, "the gateway has no such endpoint"
    assert capabilities["context_management"] == {"supported": True, "compact_20260112": YES}
    assert capabilities["server_tools"]["web_search"] == YES
    assert capabilities["thinking"]["types"]["adaptive"] == NO
    assert anthropic.types.ModelInfo.model_validate(shown).max_tokens == 64_000


@each(
    "changes",
    [
        {"capabilities": None, "lifecycle": None},
        {"capabilities": ["thinking"], "lifecycle": "asleep"},
        {"capabilities": {"thinking": {"supported": "yes"}, "batch": 3}, "created_at": "yesterday"},
        {"max_tokens": "many", "max_input_tokens": -1, "display_name": 7},
    ],
)
def test_odd_values_of_an_upstream_do_not_reach_clients(changes: dict[str, Any]) -> None:
    shown = item(read(**changes))
    assert anthropic.types.ModelInfo.model_validate(shown).id == "up/claude-x"
