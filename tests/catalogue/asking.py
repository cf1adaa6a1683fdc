"""A request on its way through the gateway, as an upstream of either protocol gets it.

`ask` takes the JSON of a client through its codec, the tidying of the history and the codec of an upstream, and gives
what would be sent. Whatever is asked, the result has to be a request that the official SDK of the upstream could have
made, and has to keep the rules for which that API is known to answer 400.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from msgspec.structs import replace
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from tests.catalogue.crossing import PROTOCOLS, Protocol
from tieline.core.history.tidy import tidy
from tieline.model.events import Note
from tieline.model.request import Request
from tieline.wire import anthropic, openai_chat
from tieline.wire.shared.spelling import ToolNames

Json = dict[str, Any]
Dialect = anthropic.Dialect | openai_chat.Dialect

PAIRS: tuple[tuple[Protocol, Protocol], ...] = tuple(product(PROTOCOLS, PROTOCOLS))
"""Every client with every upstream."""

_CHAT: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
_MESSAGES: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True)
class Sent:
    """What an upstream gets, and the same in words that fit both protocols."""

    upstream: Protocol
    raw: bytes
    body: Json
    notes: tuple[Note, ...]
    spelled: ToolNames
    request: Request

    @property
    def messages(self) -> list[Json]:
        found: list[Json] = self.body["messages"]
        return found

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        """Id, name and arguments of every call in the history."""
        if self.upstream == "anthropic":
            return [(b["id"], b["name"], b["input"]) for b in self.blocks("tool_use")]
        made = [call["function"] | {"id": call["id"]} for m in self.messages for call in m.get("tool_calls", ())]
        return [(call["id"], call["name"], json.loads(call["arguments"])) for call in made]

    @property
    def results(self) -> list[tuple[str, str]]:
        """Id and text of every result in the history."""
        if self.upstream == "anthropic":
            return [(b["tool_use_id"], _text(b.get("content") or "")) for b in self.blocks("tool_result")]
        return [(m["tool_call_id"], _text(m["content"])) for m in self.messages if m["role"] == "tool"]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Role and words of every message that has words beside calls and results."""
        spoken = [(m["role"], _text(m["content"] or "")) for m in self.messages if m["role"] != "tool"]
        return [(role, text) for role, text in spoken if text]

    @property
    def system(self) -> list[str]:
        """The system prompt, block by block."""
        if self.upstream == "anthropic":
            return [block["text"] for block in self.body.get("system", ())]
        return [text for m in self.messages if m["role"] == "system" for text in _texts(m["content"])]

    @property
    def tools(self) -> dict[str, Json]:
        """The schema of every tool by name."""
        if self.upstream == "anthropic":
            return {tool["name"]: tool.get("input_schema", {}) for tool in self.body.get("tools", ())}
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in self.body.get("tools", ())}

    @property
    def names(self) -> list[str]:
        """The names of the tools as they stand there."""
        tools = [tool.get("function") or tool.get("custom") or tool for tool in self.body.get("tools", ())]
        return [tool["name"] for tool in tools]

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was noted."""
        return [note.kind for note in self.notes]

    def blocks(self, kind: str) -> list[Json]:
        """All blocks of a kind, in the order of the history."""
        lists = [message["content"] for message in self.messages if isinstance(message["content"], list)]
        return [block for blocks in lists for block in blocks if block["type"] == kind]


def ask(said: Json | bytes, client: Protocol, upstream: Protocol, dialect: Dialect | None = None) -> Sent:
    """What an upstream gets of what a client said; checked against the SDK's types and the rules of the API."""
    sent = ask_anything(said, client, upstream, dialect)
    check_types(sent)
    check_rules(sent)
    return sent


def ask_anything(said: Json | bytes, client: Protocol, upstream: Protocol, dialect: Dialect | None = None) -> Sent:
    """The same for what only one upstream understands: no types, no rules."""
    request = parsed(said, client)
    messages, notes = tidy(request.messages)
    request = replace(request, messages=messages)
    if upstream == "anthropic":
        assert dialect is None or isinstance(dialect, anthropic.Dialect)
        out = anthropic.build_request(request, dialect or anthropic.Dialect())
    else:
        assert dialect is None or isinstance(dialect, openai_chat.Dialect)
        out = openai_chat.build_request(request, dialect or openai_chat.Dialect())
    body = json.loads(out.body)
    if upstream == "anthropic":
        _spell_out(body)
    return Sent(upstream, out.body, body, (*notes, *out.notes), out.tool_names, request)


def _spell_out(body: Json) -> None:
    """Write text in its long form, as a list of one block: the API takes both, and they mean the same."""
    for owner, name in [(body, "system"), *((message, "content") for message in body["messages"])]:
        if isinstance(owner.get(name), str):
            owner[name] = [{"type": "text", "text": owner[name]}]


def parsed(said: Json | bytes, client: Protocol) -> Request:
    """The request of a client in neutral words."""
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return anthropic.parse_request(body) if client == "anthropic" else openai_chat.parse_request(body)


# ── The same conversation, as a client of either protocol says it ───────────────────────────────


def asking(client: Protocol, *messages: list[Json], **fields: Any) -> Json:
    """The body of a request; what a client of the protocol has to say beside it is added."""
    limit = {"max_tokens": 1000} if client == "anthropic" and "max_tokens" not in fields else {}
    return {"model": "m", **limit, **fields, "messages": [message for some in messages for message in some]}


def user(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


def assistant(text: str) -> list[Json]:
    return [{"role": "assistant", "content": text}]


def calls(client: Protocol, *made: tuple[str, str, Json | str]) -> list[Json]:
    """An assistant message with calls: id, name and arguments of each."""
    if client == "anthropic":
        blocks = [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in made]
        return [{"role": "assistant", "content": blocks}]
    functions = [(i, {"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)}) for i, n, a in made]
    tool_calls = [{"id": i, "type": "function", "function": function} for i, function in functions]
    return [{"role": "assistant", "content": None, "tool_calls": tool_calls}]


def results(client: Protocol, *given: tuple[str, Any]) -> list[Json]:
    """Results: in one user message, or in a message each, as the protocol has it."""
    if client == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": content} for i, content in given]
        return [{"role": "user", "content": blocks}]
    return [{"role": "tool", "tool_call_id": i, "content": content} for i, content in given]


def tool(client: Protocol, name: str, schema: Any = None, **fields: Any) -> Json:
    """A tool; `fields` stand beside its name."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}} if schema is None else schema
    if client == "anthropic":
        return {"name": name, "input_schema": schema, **fields}
    return {"type": "function", "function": {"name": name, "parameters": schema, **fields}}


# ── What the SDKs could send ─────────────────────────────────────────────────────────────────────


def check_types(sent: Sent) -> None:
    """Assert that the body has the types of the official SDK.

    A system message inside the conversation is newer than those types, and is left out of the comparison.
    """
    body = {**sent.body, "stream": False}
    if sent.upstream == "anthropic":
        body["messages"] = [message for message in sent.messages if message["role"] != "system"]
    _read_all((_MESSAGES if sent.upstream == "anthropic" else _CHAT).validate_python(body))


def _read_all(value: Any) -> None:
    """Types that say Iterable are only checked while somebody iterates."""
    if isinstance(value, dict):
        for item in value.values():
            _read_all(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            _read_all(item)


# ── What the APIs refuse ─────────────────────────────────────────────────────────────────────────


def check_rules(sent: Sent) -> None:
    """Assert what no type can say, and what is known to be answered with 400."""
    assert sent.messages
    assert sent.body.get("tools") != []
    assert ("tool_choice" in sent.body) <= ("tools" in sent.body)
    assert all(_NAME.fullmatch(name) for name in (*sent.names, *(name for _, name, _ in sent.calls)))
    if sent.upstream == "anthropic":
        _check_messages(sent)
    else:
        _check_chat(sent.messages)


def _check_messages(sent: Sent) -> None:
    assert sent.roles[0] == "user"
    assert all(one != other for one, other in pairwise(sent.roles)), "two turns of one role"
    turns = [message for message in sent.messages if message["role"] != "system"]
    pending: list[str] = []
    for turn in turns:
        assert turn["content"], "an empty turn"
        kinds = [block["type"] for block in turn["content"]]
        count = kinds.count("tool_result")
        assert kinds[:count] == ["tool_result"] * count, "results come first"
        assert [block["tool_use_id"] for block in turn["content"][:count]] == pending
        pending = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    assert not pending, "a call without a result"
    for block in _all_blocks(sent.body):
        assert block["type"] != "text" or block["text"].strip(), "an empty text"
        assert all(_ID.fullmatch(block[name]) for name in ("id", "tool_use_id") if name in block)
    assert sum("cache_control" in block for block in _all_blocks(sent.body)) <= 4
    assert not sent.calls or sent.body["tools"]
    assert not (sent.body.keys() >= {"temperature", "top_p"})


def _all_blocks(body: Json) -> Iterator[Json]:
    yield from ({"type": "tool", **tool} for tool in body.get("tools", ()))
    yield from body.get("system", ())
    for message in body["messages"]:
        for block in message["content"]:
            yield block
            inner = block.get("content")
            yield from inner if isinstance(inner, list) else ()


def _check_chat(messages: list[Json]) -> None:
    pending: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == pending.pop(0), "results in the order of the calls"
            assert isinstance(message["content"], str | list)
            continue
        assert not pending, "a call without a result"
        assert message["content"] != []
        assert message["content"] is not None or message.get("tool_calls")
        assert message.get("tool_calls") != []
        pending = [call["id"] for call in message.get("tool_calls", ())]
        assert all(0 < len(call_id) <= 64 for call_id in pending)
        assert all(json.loads(c["function"]["arguments"]) is not None for c in message.get("tool_calls", ()))
    assert not pending, "a call without a result"


def _texts(content: str | list[Json]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def _text(content: str | list[Json]) -> str:
    return "|".join(_texts(content))
