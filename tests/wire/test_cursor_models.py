"""Lists of models, in both forms."""

import json

import pytest

from tieline.model.errors import GatewayError
from tieline.model.ports import ModelInfo
from tieline.wire.cursor._pb.agent_pb2 import GetUsableModelsResponse
from tieline.wire.cursor._pb.aiserver_pb2 import AvailableModel, AvailableModelsResponse, ModelParameter, ModelVariant
from tieline.wire.cursor._pb.shared_pb2 import ModelDetails
from tieline.wire.cursor.models import CursorModel, combine, read_catalogue, read_usable

USABLE = GetUsableModelsResponse(
    models=[
        ModelDetails(model_id="default", display_name="Auto"),
        ModelDetails(model_id="gpt-5", display_name="GPT-5", aliases=["gpt5", "g5"], max_mode=True),
        ModelDetails(model_id="gpt-5-high", display_name_short="High"),
        ModelDetails(display_name="nameless"),
        ModelDetails(model_id="gpt-5-high", display_name="Again"),
    ]
).SerializeToString()

CATALOGUE = AvailableModelsResponse(
    models=[
        AvailableModel(
            name="gpt-5-picker",
            server_model_name="gpt-5",
            client_display_name="GPT-5",
            context_token_limit=272_000,
            context_token_limit_for_max_mode=1_000_000,
            supports_images=True,
            variants=[
                ModelVariant(
                    parameters=[ModelParameter(id="effort", value="low"), ModelParameter(id="fast", value="true")],
                    variant_string_representation="gpt-5-low-fast",
                ),
                ModelVariant(
                    parameters=[ModelParameter(id="effort", value="high")],
                    variant_string_representation="gpt-5-high",
                ),
                ModelVariant(parameters=[ModelParameter(id="effort", value="low")]),
            ],
        ),
        AvailableModel(name="plain"),
        AvailableModel(client_display_name="nameless"),
    ]
).SerializeToString()


def test_usable_models_are_read_from_protobuf() -> None:
    assert read_usable(USABLE) == [
        CursorModel(id="default", title="Auto"),
        CursorModel(id="gpt-5", title="GPT-5", aliases=("gpt5", "g5")),
        CursorModel(id="gpt-5-high", title="Again"),
    ]


def test_usable_models_are_read_from_json() -> None:
    body = {
        "models": [
            {"modelId": "demo", "displayName": "Demo"},
            {
                "modelId": "gpt-5",
                "displayModelId": "gpt-5",
                "displayNameShort": "GPT-5",
                "aliases": ["g5"],
                "thinkingDetails": {"style": 3},
                "maxMode": True,
                "price": {"unheard": "of"},
            },
        ]
    }
    assert read_usable(json.dumps(body).encode()) == [
        CursorModel(id="demo", title="Demo"),
        CursorModel(id="gpt-5", title="GPT-5", aliases=("g5",)),
    ]


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_no_models_are_an_empty_list(body: bytes) -> None:
    assert read_usable(body) == []
    assert read_catalogue(body) == []


def test_the_catalogue_tells_context_sizes_and_parameters() -> None:
    gpt, plain = read_catalogue(CATALOGUE)
    assert (gpt.id, gpt.context, gpt.context_max, gpt.images) == ("gpt-5", 272_000, 1_000_000, True)
    assert gpt.parameters == {"effort": ("low", "high"), "fast": ("true",)}
    assert gpt.aliases == ("gpt-5-picker", "gpt-5-low-fast", "gpt-5-high")
    assert (plain.id, plain.context, plain.parameters) == ("plain", None, {})


def test_the_catalogue_is_read_from_json_too() -> None:
    body = {
        "models": [
            {
                "name": "gpt-5",
                "defaultOn": True,
                "supportsThinking": True,
                "contextTokenLimit": 272000,
                "variants": [{"parameters": [{"id": "thinking", "value": "true"}], "isMaxMode": False}],
            }
        ]
    }
    (found,) = read_catalogue(json.dumps(body).encode())
    assert (found.id, found.context, found.parameters) == ("gpt-5", 272_000, {"thinking": ("true",)})


def test_usable_models_get_what_the_catalogue_knows() -> None:
    auto, gpt, variant = combine(read_usable(USABLE), read_catalogue(CATALOGUE))
    assert auto == CursorModel(id="default", title="Auto")
    assert (gpt.title, gpt.context, gpt.aliases) == ("GPT-5", 272_000, ("gpt5", "g5"))
    assert gpt.parameters["effort"] == ("low", "high")
    assert (variant.title, variant.context, variant.parameters) == ("Again", 272_000, {})


def test_clients_see_the_default_as_auto() -> None:
    assert [model.info() for model in read_usable(USABLE)[:2]] == [
        ModelInfo(id="auto", title="Auto", tools=True),
        ModelInfo(id="gpt-5", title="GPT-5", tools=True),
    ]
    assert CursorModel(id="default").info().title == "Auto"


def test_clients_see_limits_inputs_and_efforts() -> None:
    _, gpt, variant = combine(read_usable(USABLE), read_catalogue(CATALOGUE))
    assert gpt.info() == ModelInfo(
        id="gpt-5",
        title="GPT-5",
        context=272_000,
        inputs=("text", "image"),
        tools=True,
        thinks=True,
        efforts=("low", "high"),
    )
    assert (variant.info().inputs, variant.info().efforts) == (("text", "image"), None)
    thinking = CursorModel(id="m", images=False, parameters={"thinking": ("true", "false")}).info()
    assert (thinking.inputs, thinking.thinks, thinking.efforts) == (("text",), True, None)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff",
        b"{",
        b"{]",
        b"\x0a\x05a",
        b"<html>",
        b'{"models":3}',
        b'{"models":[{"modelId":7}]}',
        b'{"models":[{"modelId":"\xff"}]}',
        b'{"a":' * 50_000,
    ],
)
def test_what_is_no_list_of_models_is_an_upstreams_failure(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        read_usable(body)
    assert caught.value.kind == "upstream"
    assert len(caught.value.message) < 300
    with pytest.raises(GatewayError):
        read_catalogue(body if b"modelId" not in body else b'{"models":[{"name":7}]}')
