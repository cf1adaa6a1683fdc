"""Render the models that the gateway offers."""

from collections.abc import Mapping

from tieline.model.ports import ModelInfo
from tieline.wire.shared.json import encode


def render_models(models: Mapping[str, ModelInfo]) -> bytes:
    """Return the response body for `GET /v1/models`."""
    return encode({"object": "list", "data": [_item(name, info) for name, info in models.items()]})


def render_model(name: str, info: ModelInfo) -> bytes:
    """Return the response body for `GET /v1/models/{id}`."""
    return encode(_item(name, info))


def _item(name: str, info: ModelInfo) -> dict[str, object]:
    item: dict[str, object] = {
        "id": name,
        "object": "model",
        "created": info.created,
        "owned_by": info.owner or name.partition("/")[0],
    }
    if info.context is not None:
        # Not a field of OpenAI's API, but several compatible servers have it.
        item["context_length"] = info.context
    return item
