"""Render the models that the gateway offers, and token counts."""

from collections.abc import Mapping
from datetime import UTC, datetime

from tieline.model.ports import ModelInfo
from tieline.wire.shared.json import encode


def render_models(models: Mapping[str, ModelInfo]) -> bytes:
    """Return the response body for `GET /v1/models`."""
    names = list(models)
    return encode(
        {
            "data": [_item(name, info) for name, info in models.items()],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
    )


def render_model(name: str, info: ModelInfo) -> bytes:
    """Return the response body for `GET /v1/models/{id}`."""
    return encode(_item(name, info))


def render_count(tokens: int) -> bytes:
    """Return the response body for `POST /v1/messages/count_tokens`."""
    return encode({"input_tokens": tokens})


def _item(name: str, info: ModelInfo) -> dict[str, object]:
    created = datetime.fromtimestamp(info.created, UTC).isoformat().replace("+00:00", "Z")
    item: dict[str, object] = {
        "type": "model",
        "id": name,
        "display_name": info.title or name,
        "created_at": created,
        "lifecycle": "active",
    }
    if info.context is not None:
        item["max_input_tokens"] = info.context
    return item
