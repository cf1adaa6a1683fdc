"""Read and render lists of models, and render token counts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from tieline.model.content import NO_META, Value
from tieline.model.errors import BadRequest
from tieline.model.ports import ModelInfo
from tieline.wire.anthropic.schema import PROTOCOL
from tieline.wire.shared.json import encode
from tieline.wire.shared.model_rows import limit, member, read_model, read_rows

LARGEST_PAGE = 1000
_STAGES = ("lifecycle", "line", "deprecated_at", "retires_at")
_LEVELS = ("low", "medium", "high", "xhigh", "max")


class ModelPage(Value):
    """The part of the model list that a client requested: at most `limit` models, just before or after a given one."""

    limit: int = LARGEST_PAGE
    """The maximum number of models. The API's default is only 20, but few clients request a second page."""
    after_id: str | None = None
    before_id: str | None = None


def parse_page(query: Mapping[str, Sequence[str]]) -> ModelPage:
    """Parse the query of `GET /v1/models`. Raise BadRequest if it is invalid."""
    given = {name: query[name][-1] for name in ("limit", "after_id", "before_id") if name in query}
    size = given.get("limit", str(LARGEST_PAGE))
    if not (size.isascii() and size.isdigit() and len(size) <= 4 and 1 <= int(size) <= LARGEST_PAGE):
        raise BadRequest(f"`limit`: expected a number from 1 to {LARGEST_PAGE}", "limit")
    if "after_id" in given and "before_id" in given:
        raise BadRequest("`before_id`: expected only one of `after_id` and `before_id`", "before_id")
    return ModelPage(limit=int(size), after_id=given.get("after_id"), before_id=given.get("before_id"))


def render_models(models: Mapping[str, ModelInfo], page: ModelPage | None = None) -> bytes:
    """Return the response body for `GET /v1/models`. Raise BadRequest if `page` names a model not in `models`."""
    names, has_more = _cut(list(models), page or ModelPage())
    return encode(
        {
            "data": [_item(name, models[name]) for name in names],
            "has_more": has_more,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
    )


def _cut(names: list[str], page: ModelPage) -> tuple[list[str], bool]:
    """Return the names on a page, and whether more names follow in the direction in which the client pages."""
    if page.before_id is not None:
        before = names[: _index(names, page.before_id, "before_id")]
        return before[-page.limit :], len(before) > page.limit
    after = names if page.after_id is None else names[_index(names, page.after_id, "after_id") + 1 :]
    return after[: page.limit], len(after) > page.limit


def _index(names: list[str], name: str, param: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise BadRequest(f"`{param}`: there is no model `{name[:100]}` in this list", param) from None


def render_model(name: str, info: ModelInfo) -> bytes:
    """Return the response body for `GET /v1/models/{id}`."""
    return encode(_item(name, info))


def render_count(tokens: int) -> bytes:
    """Return the response body for `POST /v1/messages/count_tokens`."""
    return encode({"input_tokens": tokens})


def _item(name: str, info: ModelInfo) -> dict[str, object]:
    created = datetime.fromtimestamp(info.created, UTC).isoformat().replace("+00:00", "Z")
    own = info.meta.get(PROTOCOL, {})
    item: dict[str, object] = {
        "type": "model",
        "id": name,
        "display_name": info.title or name,
        "created_at": created,
        "lifecycle": "active",
        **own,
    }
    if info.context is not None:
        item["max_input_tokens"] = info.context
    if info.max_output is not None:
        item["max_tokens"] = info.max_output
    if "capabilities" in own or (info.inputs is not None and info.thinks is not None):
        item["capabilities"] = _capabilities(info, own.get("capabilities", {}))
    return item


def _capabilities(info: ModelInfo, own: Mapping[str, Any]) -> dict[str, object]:
    """Return the capabilities of a model, with every member that clients expect.

    `own` contains the capabilities that the upstream reported.
    """
    return {
        "citations": _support(False),
        "code_execution": _support(False),
        "context_management": _support(False),
        "server_tools": {**_support(False), "web_search": _support(False), "code_execution": _support(False)},
        # The gateway emulates output schemas for upstreams that do not support them.
        "structured_outputs": _support(True),
        **own,
        "batch": _support(False),  # the gateway has no such endpoint
        **_inputs(info),
        "thinking": _thinking(info, own.get("thinking", {})),
        "effort": _effort(info, own.get("effort", {})),
    }


def _inputs(info: ModelInfo) -> dict[str, object]:
    inputs = info.inputs or ()
    return {"image_input": _support("image" in inputs), "pdf_input": _support("file" in inputs)}


def _thinking(info: ModelInfo, own: Mapping[str, Any]) -> dict[str, object]:
    thinks = bool(info.thinks)
    types = {"adaptive": thinks, "enabled": thinks, "disabled": True, "between_tools": False}
    supported = {name: _support(is_supported) for name, is_supported in types.items()}
    return {**own, **_support(thinks), "types": {**supported, **own.get("types", {})}}


def _effort(info: ModelInfo, own: Mapping[str, Any]) -> dict[str, object]:
    efforts = info.efforts or ()
    return {**own, **_support(bool(efforts)), **{level: _support(level in efforts) for level in _LEVELS}}


def _support(supported: bool) -> dict[str, object]:
    return {"supported": supported}


def read_models(body: bytes) -> list[ModelInfo]:
    """Parse the response to `GET /v1/models`. Raise Malformed if it is invalid."""
    return [_read(row) for row in read_rows(body)]


def _read(row: dict[str, Any]) -> ModelInfo:
    info = read_model(row)
    own = {name: row[name] for name in _STAGES if isinstance(row.get(name), str)}
    if own.get("lifecycle") not in ("active", "deprecated", "retired"):
        own = {}
    capabilities = row.get("capabilities")
    if isinstance(capabilities, dict) and isinstance(member(capabilities, ("thinking", "types")), dict):
        own["capabilities"] = {
            name: value for name, value in capabilities.items() if isinstance(member(value, ("supported",)), bool)
        }
    return replace(
        info,
        max_output=info.max_output or limit(row, [("max_tokens",)]),
        meta={PROTOCOL: own} if own else NO_META,
    )
