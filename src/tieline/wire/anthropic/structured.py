"""Request structured output with the API's `output_config.format`, or with an instruction in the system prompt."""

from typing import Any

from msgspec import Raw

from tieline.model.events import Note
from tieline.model.request import OutputFormat, Request
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.schema import PROTOCOL, TextBlock
from tieline.wire.shared.json import decode_any, encode

JSON_ONLY = "Answer with one JSON object and nothing else: no explanation, no code fence."
BY_SCHEMA = "Answer with JSON that fits this JSON schema and nothing else: no explanation, no code fence.\n"

_UNKNOWN_KEYWORDS = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""Keywords that the API rejects in an output schema."""


def instructions(output: OutputFormat, dialect: Dialect, notes: list[Note]) -> list[TextBlock]:
    """Return the instructions to add to the system prompt; an empty list if `output_config.format` is used instead."""
    if output.schema is not None and dialect.structured_output:
        return []
    notes.append(
        Note(kind="structured_output", message="requested in the system prompt; the upstream does not enforce it")
    )
    if output.schema is None:
        return [TextBlock(JSON_ONLY)]
    return [TextBlock(BY_SCHEMA + output.schema.decode())]


def output_config(request: Request, dialect: Dialect, effort: str | None, notes: list[Note]) -> dict[str, Any]:
    """Return the member `output_config` with effort, format and task budget; an empty dict if there are none."""
    config: dict[str, Any] = {}
    if effort is not None:
        config["effort"] = effort
    output = request.output
    if output is not None and output.schema is not None and dialect.structured_output:
        own = request.protocol == PROTOCOL
        config["format"] = {"type": "json_schema", "schema": Raw(output.schema if own else _fitting(output, notes))}
    task_budget = request.reasoning.meta.get(PROTOCOL, {}).get("task_budget")
    if task_budget is not None:
        config["task_budget"] = Raw(task_budget.encode())
    return {"output_config": config} if config else {}


def _fitting(output: OutputFormat, notes: list[Note]) -> bytes:
    """Return the schema as the API accepts it: without value limits, and with additional properties forbidden."""
    schema = decode_any(output.schema or b"{}")
    dropped: set[str] = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            _fit(node, dropped)
            stack.extend(_below(node))
    if dropped:
        notes.append(Note(kind="schema", message=f"{output.name}: left out {', '.join(sorted(dropped))}"))
    return encode(schema)


def _fit(node: dict[str, Any], dropped: set[str]) -> None:
    for keyword in _UNKNOWN_KEYWORDS & node.keys():
        del node[keyword]
        dropped.add(keyword)
    if node.get("type") == "object" or "properties" in node:
        node["additionalProperties"] = False


def _below(node: dict[str, Any]) -> list[Any]:
    """Return the schemas directly inside a schema.

    Those in `prefixItems`, `anyOf`, `oneOf` and `allOf` form one nested list for each keyword.
    """
    named = [node[word] for word in ("properties", "$defs", "definitions") if isinstance(node.get(word), dict)]
    below = [schema for schemas in named for schema in schemas.values()]
    return below + [node[word] for word in ("items", "prefixItems", "anyOf", "oneOf", "allOf") if word in node]
