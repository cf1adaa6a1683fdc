"""Requests that are wrong, over real HTTP: each is refused in its dialect, with the place of the mistake."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.catalogue.crossing import PROTOCOLS, Protocol
from tests.catalogue.serving import BACKENDS, CLIENTS, KEY, PATH, Stand, heard, question, says, serving

LEAKS = ("Traceback", "msgspec", ".py", "Error:", "object at 0x")
"""What only shows in a message when an exception was let through."""


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving() as made:
        yield made
        # Whatever came before: the gateway still answers.
        made.script("oai", says("oai", "Hello"))
        assert (await made.ask("openai_chat", "oai", stream=True)).text == "Hello"


async def refused(stand: Stand, client: Protocol, body: bytes, status: int = 400, **headers: str) -> dict[str, Any]:
    """The error that a body is answered with; nothing of it went upstream."""
    response = await stand.http.post(PATH[client], content=body, headers=headers)
    answer = heard(client, response.status_code, response.headers, response.content)
    error = answer.check_failed(status)
    assert not [leak for leak in LEAKS if leak in response.text]
    assert not stand.asked("ant") + stand.asked("oai")
    return error


async def misplaced(stand: Stand, client: Protocol, at: str, **fields: Any) -> None:
    """Check that a request with these fields is refused with the path of the mistake."""
    asked = {**question("oai", stream=False), **fields}
    body = {name: value for name, value in asked.items() if value != "absent"}
    error = await refused(stand, client, json.dumps(body).encode())
    assert f"`{at}`" in error["message"]
    assert error["type"] == "invalid_request_error"
    if client == "openai_chat":
        assert error["param"] == at


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────


@CLIENTS
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"true",
        b"7",
        b'"text"',
        b"[]",
        b"{",
        b'{"model":',
        b'{"model":"oai/m",}',
        b"{'model':'oai/m'}",
        b'{"model":"oai/m","messages":[{"role":"user","content":"Hi"}],"max_tokens":9} more',
        b"model=oai",
        b"\x00",
        b"\x1f\x8b\x08\x00",
        b'{"model":NaN}',
    ],
)
async def test_a_body_that_is_no_json_object(stand: Stand, client: Protocol, body: bytes) -> None:
    await refused(stand, client, body)


@CLIENTS
@pytest.mark.parametrize("place", ["model", "content", "key", "extra", "tool"])
async def test_invalid_utf8_anywhere(stand: Stand, client: Protocol, place: str) -> None:
    tool = {"name": "a", "input_schema": {"x": "TOOL"}}
    tools = (
        [tool]
        if client == "anthropic"
        else [{"type": "function", "function": {"name": "a", "parameters": {"x": "TOOL"}}}]
    )
    fields = {"model": "oai/MODEL", "KEY": 1, "vendor": {"deep": ["EXTRA"]}, "tools": tools}
    messages = [{"role": "user", "content": "CONTENT"}]
    body = json.dumps({**question("oai", stream=False), **fields, "messages": messages}).encode()
    assert place.upper().encode() in body
    for wrong in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"):
        error = await refused(stand, client, body.replace(place.upper().encode(), wrong))
        assert "UTF-8" in error["message"]


@CLIENTS
@pytest.mark.parametrize("field", ["messages", "tools", "system", "vendor", "content", "schema"])
@pytest.mark.parametrize("brackets", [b"[]", b"{}"])
async def test_ninety_thousand_levels(stand: Stand, client: Protocol, field: str, brackets: bytes) -> None:
    opening = brackets[:1] if brackets == b"[]" else b'{"a":'
    deep = opening * 90_000 + b"1" + brackets[1:] * 90_000
    given: dict[str, Any] = {field: "DEEP"}
    if field == "content":
        given = {"messages": [{"role": "user", "content": "DEEP"}]}
    elif field == "schema":
        schema = {"type": "object", "properties": "DEEP"}
        own = {"name": "a", "input_schema": schema}
        given = {
            "tools": [
                own if client == "anthropic" else {"type": "function", "function": {"name": "a", "parameters": schema}}
            ]
        }
    body = json.dumps(question("oai", stream=False, **given)).encode().replace(b'"DEEP"', deep)
    await refused(stand, client, body)


@pytest.mark.parametrize(
    ("at", "field"),
    [
        ("thinking", '{"type": "enabled", "budget_tokens": 1e400}'),
        ("reasoning", '{"max_tokens": 1e400}'),
        (
            "response_format.json_schema.schema",
            '{"type": "json_schema", "json_schema": {"name": "f", "schema": {"maximum": 1e400}}}',
        ),
    ],
)
async def test_a_number_beyond_all_bounds_is_refused_with_its_place(stand: Stand, at: str, field: str) -> None:
    asked = {**question("ant", stream=False), at.partition(".")[0]: "NUMBER"}
    body = json.dumps(asked).replace('"NUMBER"', field).encode()
    error = await refused(stand, "openai_chat", body)
    assert f"`{at}" in error["message"]
    assert error["param"].startswith(at)


@CLIENTS
async def test_fifty_mebibytes_are_too_large(stand: Stand, client: Protocol) -> None:
    messages = [{"role": "user", "content": "x" * (50 * 1024 * 1024)}]
    body = json.dumps(question("oai", stream=False, messages=messages)).encode()
    error = await refused(stand, client, body, 413)
    assert "48 MiB" in error["message"]


@CLIENTS
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""]
)
async def test_the_content_type_does_not_matter(stand: Stand, client: Protocol, kind: str) -> None:
    stand.script("oai", says("oai", "Grüezi"))
    body = json.dumps(question("oai", stream=False), ensure_ascii=False).encode()
    response = await stand.http.post(PATH[client], content=body, headers={"content-type": kind})
    assert heard(client, response.status_code, response.headers, response.content).text == "Grüezi"


# ── Fields ───────────────────────────────────────────────────────────────────────────────────────

USER = {"role": "user", "content": "Hi"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not base64!"}}
PICTURE_URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,not base64!"}}

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": 7}),
    ("model", {"model": None}),
    ("messages", {"messages": []}),
    ("messages", {"messages": "Hi"}),
    ("messages", {"messages": {"role": "user"}}),
    ("messages[0]", {"messages": ["Hi"]}),
    ("messages[1]", {"messages": [USER, None]}),
    ("messages[1].role", {"messages": [USER, {"role": "robot", "content": "Hi"}]}),
    ("messages[1].role", {"messages": [USER, {"role": 7, "content": "Hi"}]}),
    ("messages[1].role", {"messages": [USER, {"content": "Hi"}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": 7}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": {"type": "text"}}]}),
    ("messages[0].content[0]", {"messages": [{"role": "user", "content": [7]}]}),
    ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}),
    (
        "messages[3].content[1].type",
        {"messages": [USER, USER, USER, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": 7}]}]},
    ),
    ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": 7, "text": "Hi"}]}]}),
    ("messages[0].content[0].text", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    ("messages[0].content[0].text", {"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]}),
    ("messages[0].content[0].source.data", {"messages": [{"role": "user", "content": [PICTURE]}]}),
    ("max_tokens", {"max_tokens": "many"}),
    ("max_tokens", {"max_tokens": [1]}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("temperature", {"temperature": "hot"}),
    ("stream", {"stream": "yes"}),
    ("tools", {"tools": "all"}),
    ("tools[0]", {"tools": ["all"]}),
    ("tools[1]", {"tools": [{"name": "a", "input_schema": {"type": "object"}}, 7]}),
    ("tool_choice.type", {"tools": [{"name": "a"}], "tool_choice": {"type": "maybe"}}),
]
OWN: dict[Protocol, list[tuple[str, dict[str, Any]]]] = {
    "anthropic": [
        ("model", {"model": "absent"}),
        ("messages", {"messages": "absent"}),
        ("max_tokens", {"max_tokens": "absent"}),
        ("max_tokens", {"max_tokens": -1}),
        ("system", {"system": 7}),
        ("system[0].text", {"system": [{"type": "text", "text": 7}]}),
        ("tools[0].name", {"tools": [{"input_schema": {}}]}),
        ("tools[0].input_schema", {"tools": [{"name": "a", "input_schema": "any"}]}),
        ("tool_choice.name", {"tools": [{"name": "a"}], "tool_choice": {"type": "tool"}}),
        ("stop_sequences", {"stop_sequences": "END"}),
        ("stop_sequences[0]", {"stop_sequences": [7]}),
        ("thinking.budget_tokens", {"thinking": {"type": "enabled"}}),
    ],
    "openai_chat": [
        ("model", {"model": "absent"}),
        ("model", {"model": ""}),
        ("messages", {"messages": "absent"}),
        ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "x"}]}]}),
        ("messages[0].content[0].image_url.url", {"messages": [{"role": "user", "content": [PICTURE_URL]}]}),
        ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": 7}]}),
        ("messages[0].tool_calls[0].function", {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}),
        ("response_format.type", {"response_format": {"type": "yaml"}}),
        ("response_format.json_schema", {"response_format": {"type": "json_schema"}}),
        ("stop", {"stop": 7}),
        ("n", {"n": "two"}),
        ("stream_options.include_usage", {"stream_options": {"include_usage": "yes"}}),
    ],
}
CASES = [(client, at, fields) for client in PROTOCOLS for at, fields in (*WRONG, *OWN[client])]


@pytest.mark.parametrize(("client", "at", "fields"), CASES, ids=[f"{c}-{at}-{f}"[:90] for c, at, f in CASES])
async def test_a_field_that_is_wrong_is_named(stand: Stand, client: Protocol, at: str, fields: dict[str, Any]) -> None:
    await misplaced(stand, client, at, **fields)


# ── Names, paths and methods ─────────────────────────────────────────────────────────────────────


@CLIENTS
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["oia/test-model", "test-modle", "gpt", "x" * 10_000, "nobody/else", "oai/", "\x00"])
async def test_an_unknown_model_is_answered_with_the_closest_names(client: Protocol, stream: bool, model: str) -> None:
    async with serving(models=("test-model", "test-model-mini", "other")) as stand:
        body = json.dumps(question("oai", stream=stream, model=model)).encode()
        error = await refused(stand, client, body, 404)
    known = {f"{backend}/{name}" for backend in BACKENDS for name in ("test-model", "test-model-mini", "other")}
    close = error["message"].partition("The closest names are: ")[2].partition(".")[0].split(", ")
    assert len(close) == 3
    assert set(close) <= known
    if client == "openai_chat":
        assert (error["param"], error["code"]) == ("model", "model_not_found")


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing", "/v1/chat", "/v1/messages/x", "/%00", "/é", "/../etc"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_not_found(stand: Stand, path: str, method: str) -> None:
    response = await stand.http.request(method, path)
    assert response.status_code == 404
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("version", [{}, {"anthropic-version": "2023-06-01"}], ids=["openai", "anthropic"])
async def test_an_unknown_path_is_told_in_the_dialect_of_the_client(stand: Stand, version: dict[str, str]) -> None:
    client: Protocol = "anthropic" if version else "openai_chat"
    response = await stand.http.post("/v1/nothing", headers=version)
    heard(client, response.status_code, response.headers, response.content).check_failed(404)


@CLIENTS
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_a_wrong_method_is_told_which_is_right(stand: Stand, client: Protocol, method: str) -> None:
    response = await stand.http.request(method, PATH[client])
    answer = heard(client, response.status_code, response.headers, response.content)
    assert "POST" in answer.check_failed(405)["message"]
    assert response.headers["allow"] == "POST"


@CLIENTS
@pytest.mark.parametrize(
    "headers", [{}, {"x-api-key": "wrong"}, {"authorization": "Bearer \xff"}, {"authorization": KEY}]
)
async def test_a_wrong_key_is_refused_in_the_dialect(stand: Stand, client: Protocol, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with httpx2.AsyncClient(base_url=stand.url) as stranger:
        response = await stranger.post(PATH[client], json=question("oai", stream=True), headers=encoded)
    answer = heard(client, response.status_code, response.headers, response.content)
    assert KEY not in answer.check_failed(401)["message"]


async def test_counting_is_as_strict(stand: Stand) -> None:
    response = await stand.http.post(
        "/v1/messages/count_tokens", content=b'{"model":"ant/m","messages":[{"role":"x"}]}'
    )
    answer = heard("anthropic", response.status_code, response.headers, response.content)
    assert "messages[0].role" in answer.check_failed(400)["message"]
