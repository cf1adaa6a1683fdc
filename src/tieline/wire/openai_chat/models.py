"""Render lists of models.

OpenAI's own API reports hardly anything about a model. Compatible servers have added fields with different names, and
each client reads only some of them. So each fact is reported under several names. Unknown facts are left out.
"""

from collections.abc import Mapping, Sequence

from tieline.model.ports import ModelInfo
from tieline.wire.openai_chat.codex_models import codex_entries
from tieline.wire.shared.json import encode


def render_models(
    models: Mapping[str, ModelInfo], api_types: Sequence[str] = (), *, include_codex: bool = False
) -> bytes:
    """Return the response body for `GET /v1/models`.

    `api_types` are the APIs through which the models are available. `include_codex` adds the list that Codex reads.
    """
    listed: dict[str, object] = {
        "object": "list",
        "data": [_item(name, info, api_types) for name, info in models.items()],
    }
    if include_codex:
        listed["models"] = codex_entries(models)
    return encode(listed)


def render_model(name: str, info: ModelInfo, api_types: Sequence[str] = ()) -> bytes:
    """Return the response body for `GET /v1/models/{id}`."""
    return encode(_item(name, info, api_types))


def _item(name: str, info: ModelInfo, api_types: Sequence[str]) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": info.created,
        "owned_by": info.owner or name.partition("/")[0],
        **_known(
            display_name=info.title or None,
            context_length=info.context,
            context_window=info.context,
            max_model_len=info.context,
            max_output_tokens=info.max_output,
            max_completion_tokens=info.max_output,
            architecture=_architecture(info),
            supported_parameters=_parameters(info),
        ),
        "api_types": api_types,
        "capabilities": _capabilities(info),
    }


def _architecture(info: ModelInfo) -> dict[str, object] | None:
    if info.inputs is None:
        return None
    modality = "+".join(info.inputs) + "->text"
    return {"modality": modality, "input_modalities": info.inputs, "output_modalities": ["text"]}


def _parameters(info: ModelInfo) -> list[str] | None:
    """Return the request parameters that a model supports; None if not all of them are known.

    An incomplete list would be misleading, because clients treat a missing parameter as not supported.
    """
    if info.tools is None or info.thinks is None:
        return None
    tools = ["tools", "tool_choice"] if info.tools else []
    thinking = ["reasoning", "include_reasoning"] if info.thinks else []
    return ["max_tokens", "stop", *tools, *thinking, *(["reasoning_effort"] if info.efforts else [])]


def _capabilities(info: ModelInfo) -> dict[str, object]:
    """Return the abilities of a model in the form that Cursor's build for private inference reads.

    That build lists only models that support tools, streaming and text. So a model is reported to support tools unless
    it is known not to.
    """
    inputs = info.inputs
    return {
        **_known(
            context_length=info.context,
            max_output_tokens=info.max_output,
            input_modalities=inputs,
            supports_vision=None if inputs is None else "image" in inputs,
            supports_reasoning=info.thinks,
            reasoning_effort=info.efforts or None,
        ),
        "output_modalities": ["text"],
        "supports_tools": info.tools is not False,
        "supports_tool_use": info.tools is not False,
        "supports_streaming": True,
    }


def _known(**facts: object) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}
