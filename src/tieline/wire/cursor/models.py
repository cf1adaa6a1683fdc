"""Parse the service's lists of models.

There are two lists: the models that the account may use, and a catalogue with context sizes and parameters. The service
sends each list as protobuf or as JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, get_args

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from msgspec.structs import replace

from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.model.ports import Input, ModelInfo
from tieline.model.request import Effort
from tieline.wire.cursor._pb.agent_pb2 import GetUsableModelsResponse
from tieline.wire.cursor._pb.aiserver_pb2 import AvailableModel, AvailableModelsResponse, ModelVariant

AUTO = "auto"
"""Tieline's name for the pseudo-model that lets the service choose a model."""
DEFAULT = "default"
"""The service's own name for `AUTO`."""

M = TypeVar("M", bound=Message)


class CursorModel(Value):
    """A model as the service describes it. A field is None if the service sends no value for it."""

    id: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    context: int | None = None
    """The size of the context window in tokens."""
    context_max: int | None = None
    """The size of the context window in Cursor's max mode, in tokens."""
    images: bool | None = None
    parameters: Mapping[str, tuple[str, ...]] = {}
    """The known values of each model parameter, by parameter name."""

    def info(self) -> ModelInfo:
        """Return the model as clients see it."""
        is_default = self.id == DEFAULT
        inputs: tuple[Input, ...] = ("text", "image") if self.images else ("text",)
        levels = self.parameters.get("effort") or self.parameters.get("reasoning")
        efforts = tuple(effort for effort in get_args(Effort) if effort in levels) if levels else None
        return ModelInfo(
            id=AUTO if is_default else self.id,
            title=self.title or ("Auto" if is_default else ""),
            context=self.context,
            inputs=None if self.images is None else inputs,
            tools=True,
            thinks=True if efforts or "thinking" in self.parameters else None,
            efforts=efforts,
        )


def unlisted(name: str) -> ModelInfo:
    """Return a description of a model that is not in the lists. Only its name is known."""
    return CursorModel(id=name).info()


def read_usable(body: bytes) -> list[CursorModel]:
    """Parse a GetUsableModels response; raise GatewayError if it is unreadable."""
    found = _read(body, GetUsableModelsResponse()).models
    models = {
        model.model_id: CursorModel(
            id=model.model_id,
            title=model.display_name or model.display_name_short,
            aliases=tuple(model.aliases),
        )
        for model in found
        if model.model_id
    }
    return list(models.values())


def read_catalogue(body: bytes) -> list[CursorModel]:
    """Parse an AvailableModels response; raise GatewayError if it is unreadable."""
    found = _read(body, AvailableModelsResponse()).models
    return [_catalogued(model) for model in found if model.name or model.server_model_name]


def combine(usable: Sequence[CursorModel], catalogue: Iterable[CursorModel]) -> list[CursorModel]:
    """Return the usable models, with details added from the catalogue.

    A usable model may be a variant, which the catalogue lists under its base model.
    """
    known: dict[str, CursorModel] = {}
    for model in catalogue:
        for name in (model.id, *model.aliases):
            known.setdefault(name, model)
    return [_with(model, known.get(model.id)) for model in usable]


def _with(model: CursorModel, known: CursorModel | None) -> CursorModel:
    if known is None:
        return model
    return replace(
        model,
        title=model.title or known.title,
        context=known.context,
        context_max=known.context_max,
        images=known.images,
        # The name of a variant already determines its parameters.
        parameters=known.parameters if model.id == known.id else {},
    )


def _catalogued(model: AvailableModel) -> CursorModel:
    model_id = model.server_model_name or model.name
    variants = [variant.variant_string_representation for variant in model.variants]
    names = dict.fromkeys([model.name, *variants])
    return CursorModel(
        id=model_id,
        title=model.client_display_name,
        aliases=tuple([name for name in names if name and name != model_id]),
        context=model.context_token_limit or None,
        context_max=model.context_token_limit_for_max_mode or None,
        images=model.supports_images,
        parameters=_parameters(model.variants),
    )


def _parameters(variants: Iterable[ModelVariant]) -> dict[str, tuple[str, ...]]:
    values: dict[str, dict[str, None]] = {}
    for variant in variants:
        for parameter in variant.parameters:
            values.setdefault(parameter.id, {})[parameter.value] = None
    return {name: tuple(found) for name, found in values.items()}


def _read(body: bytes, into: M) -> M:
    """Parse a response body into the message `into`. It is JSON if it begins with a brace, and protobuf otherwise."""
    try:
        if body[:1] == b"{":
            return json_format.Parse(body, into, ignore_unknown_fields=True)
        into.MergeFromString(body)
    except (json_format.ParseError, DecodeError, UnicodeError, RecursionError, ValueError) as error:
        message = f"the list of models is unreadable: {str(error)[:200]}"
        raise GatewayError("upstream", message) from error
    return into
