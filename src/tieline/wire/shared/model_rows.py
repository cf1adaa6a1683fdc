"""Read an upstream's list of models.

Only the id of a model has a standard name. Servers report limits and abilities under many different names. A value of
an unexpected type is ignored.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, get_args

import msgspec

from tieline.model.ports import Input, ModelInfo
from tieline.model.request import Effort
from tieline.wire.shared.json import Malformed, decode_any

MOST_TOKENS = 1_000_000_000
"""The largest plausible number of tokens. A larger number is not used as a limit."""

Path = tuple[str, ...]


def _paths(*dotted: str) -> tuple[Path, ...]:
    return tuple(tuple(path.split(".")) for path in dotted)


_CONTEXT = _paths(
    *("context_length", "context_window", "max_model_len", "max_context_length", "max_input_tokens"),
    *("capabilities.context_length", "top_provider.context_length"),
)
_OUTPUT = _paths(
    *("max_output_tokens", "max_completion_tokens"),
    *("capabilities.max_output_tokens", "top_provider.max_completion_tokens"),
)
_INPUTS = _paths("input_modalities", "architecture.input_modalities", "capabilities.input_modalities")
_IMAGES = _paths(
    *("supports_vision", "supports_image_input", "supports_image_in"),
    *("capabilities.supports_vision", "capabilities.vision", "capabilities.image_input.supported"),
)
_FILES = _paths("capabilities.pdf_input.supported")
_TOOLS = _paths(
    *("supports_tools", "supports_tool_use"),
    *("capabilities.supports_tool_use", "capabilities.supports_tools", "capabilities.function_calling"),
)
_THINKS = _paths("supports_reasoning", "capabilities.supports_reasoning", "capabilities.thinking.supported")
_EFFORTS = _paths("reasoning_efforts", "capabilities.reasoning_effort")

_INPUT_WORDS: dict[str, Input] = {word: word for word in get_args(Input)} | {"pdf": "file", "document": "file"}
_TOOL_WORDS = frozenset({"tools", "tool_use", "tool_calling", "function_calling"})
_THINKING_WORDS = frozenset({"reasoning", "reasoning_effort", "include_reasoning", "thinking"})


def read_models(body: bytes) -> list[ModelInfo]:
    """Parse a list of models. Leave out entries without an id. Raise Malformed if `body` is not a list of models."""
    return [read_model(row) for row in read_rows(body)]


def read_rows(body: bytes) -> list[dict[str, Any]]:
    """Parse a list of models. Return the entries with an id. Raise Malformed if `body` is not a list of models."""
    try:
        answer = decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
    rows = answer.get("data", []) if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        raise Malformed("expected an object with a list `data`")
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"]]


def read_model(row: dict[str, Any]) -> ModelInfo:
    """Convert one entry of a list of models to a ModelInfo."""
    thinks = _flag(row, _THINKS, _THINKING_WORDS)
    efforts = _efforts(row)
    return ModelInfo(
        id=row["id"],
        title=_title(row),
        created=_created(row),
        context=limit(row, _CONTEXT),
        max_output=limit(row, _OUTPUT),
        inputs=_inputs(row),
        tools=_flag(row, _TOOLS, _TOOL_WORDS),
        thinks=True if efforts else thinks,
        efforts=() if thinks is False and efforts is None else efforts,
    )


def member(row: Any, path: Iterable[str]) -> Any:
    """Return the value at `path`, a sequence of keys; None if there is none."""
    for key in path:
        if not isinstance(row, dict):
            return None
        row = row.get(key)
    return row


def limit(row: dict[str, Any], paths: Iterable[Path]) -> int | None:
    """Return the number of tokens at the first of these paths that leads to a plausible number, or None."""
    for path in paths:
        value = member(row, path)
        if value is not None and isinstance(value, int | float) and value is not True and 1 <= value <= MOST_TOKENS:
            return int(value)
    return None


def _title(row: dict[str, Any]) -> str:
    names = (row.get("display_name"), row.get("name"))
    return next((name for name in names if isinstance(name, str) and name and name != row["id"]), "")


def _created(row: dict[str, Any]) -> int:
    created = row.get("created")
    if isinstance(created, int | float) and 0 < created < MOST_TOKENS * 10:
        return int(created)
    try:
        return max(0, int(datetime.fromisoformat(row["created_at"]).timestamp()))
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


def _inputs(row: dict[str, Any]) -> tuple[Input, ...] | None:
    for path in _INPUTS:
        if words := _words(member(row, path)):
            found = [_INPUT_WORDS[word] for word in words if word in _INPUT_WORDS]
            return tuple(dict.fromkeys(found)) or None
    images = _flag(row, _IMAGES)
    if images is None and (abilities := _words(row.get("capabilities"))):
        images = "vision" in abilities
    if images is None:
        return None
    files: tuple[Input, ...] = ("file",) if _flag(row, _FILES) else ()
    return ("text", "image", *files) if images else ("text", *files)


def _flag(row: dict[str, Any], paths: Iterable[Path], words: frozenset[str] = frozenset()) -> bool | None:
    """Return whether a model has an ability, or None if that is unknown.

    The entry may report the ability as a boolean at one of `paths`, or as one of `words` in a list of features.
    """
    for path in paths:
        value = member(row, path)
        if isinstance(value, bool):
            return value
    if not words:
        return None
    listed = [*_words(row.get("supported_parameters")), *_words(row.get("capabilities"))]
    return not words.isdisjoint(listed) if listed else None


def _efforts(row: dict[str, Any]) -> tuple[Effort, ...] | None:
    known: tuple[Effort, ...] = get_args(Effort)
    for path in _EFFORTS:
        if words := _words(member(row, path)):
            return tuple(effort for effort in known if effort in words)
    levels = member(row, ("capabilities", "effort"))  # an object with a member for each level
    if isinstance(levels, dict):
        return tuple(effort for effort in known if member(levels, (effort, "supported")) is True)
    return None


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
