"""The members of a response that repeat the settings of the request.

Every response has all of them, including those that the client did not send, because some clients validate the whole
object.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from tieline.wire.openai_responses.parse import ENCRYPTED
from tieline.wire.shared.json import encode

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_NULL = Raw(b"null")

_DEFAULTS: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_FUNCTION = {"description": None, "parameters": None, "strict": True}
_SCHEMA = {"description": None, "strict": False}
_SECRET = ("authorization", "headers")
"""Members of MCP tools that hold credentials. They are not repeated or stored: clients send them in each request."""
_ECHOED = frozenset([*_DEFAULTS, "prompt", "prompt_cache_retention"])
"""Members of a request that the response repeats. Those without a default are repeated only if the request has them."""


def echo_of(fields: Mapping[str, Raw]) -> bytes:
    """Return the members that repeat a request, as JSON without braces. `fields` are the request's top-level fields."""
    given = {name: value for name, value in fields.items() if value != _NULL}
    echo = {**_DEFAULTS, **{name: value for name, value in given.items() if name in _ECHOED}}
    if "tools" in given:
        echo["tools"] = _tools(given["tools"])
    if "reasoning" in given:
        echo["reasoning"] = {**_DEFAULTS["reasoning"], **_members(given["reasoning"])}
    if "text" in given:
        echo["text"] = _text(given["text"])
    if given.get("service_tier") == Raw(b'"auto"'):
        echo["service_tier"] = "default"
    if "conversation" in given:
        conversation = given["conversation"]
        echo["conversation"] = {"id": conversation} if bytes(conversation).startswith(b'"') else conversation
    return encode(echo)[1:-1]


def wants_encrypted(fields: Mapping[str, Raw]) -> bool:
    """Return whether a client asks for the `encrypted_content` of reasoning items."""
    return encode(ENCRYPTED) in bytes(fields.get("include", _NULL))


def _tools(raw: Raw) -> list[Any]:
    return [_tool(tool) for tool in _LIST.decode(raw)] if bytes(raw).startswith(b"[") else []


def without_credentials(item: Raw) -> Raw:
    """Return an item without the credentials of the tools in it, so that it can be stored.

    Only some items, such as `additional_tools`, contain tools.
    """
    if b'"mcp"' not in bytes(item) or not bytes((members := _members(item)).get("tools", b"")).startswith(b"["):
        return item
    tools = [_public(tool) for tool in _LIST.decode(members["tools"])]
    return Raw(encode({**members, "tools": tools}))


def _tool(raw: Raw) -> Any:
    members = _members(raw)
    return {**_FUNCTION, **members} if members.get("type") == Raw(b'"function"') else _public(raw)


def _public(tool: Raw) -> Any:
    """Return the tool without credentials."""
    members = _members(tool)
    if members.get("type") != Raw(b'"mcp"'):
        return tool
    return {name: value for name, value in members.items() if name not in _SECRET}


def _text(raw: Raw) -> dict[str, Any]:
    members = _members(raw)
    text: dict[str, Any] = {**_DEFAULTS["text"], **members}
    wanted = _members(members.get("format", _NULL))
    if wanted.get("type") == Raw(b'"json_schema"'):
        text["format"] = {**_SCHEMA, **wanted}
    return text


def _members(raw: Raw) -> dict[str, Raw]:
    return _MEMBERS.decode(raw) if bytes(raw).startswith(b"{") else {}


DEFAULT_ECHO = echo_of({})
"""The members that repeat the settings, for a request that contains none of them."""
