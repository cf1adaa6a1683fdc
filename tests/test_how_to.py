"""The worked examples of docs/how-to, executed as they stand in the documents."""

import re
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
from msgspec.structs import replace

from tests.cases import READ, asks, says
from tests.codecs import joined, read_stream, write_stream
from tests.each import each
from tests.grammar import check
from tieline.backends.http_api.replay import ReplayBackend
from tieline.backends.http_api.upstream import RetryPolicy, Upstream
from tieline.core.legs.gateway import Gateway
from tieline.frontends.guard import Guard
from tieline.frontends.http_app import HttpApp, Route
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import Relay
from tieline.model.assemble import fold
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.errors import BadRequest
from tieline.model.events import Event, Failed, Finished, StopReason
from tieline.model.request import Request, Sampling
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.sim.model import Answer, ModelServer
from tieline.tasks import Tasks

HOW_TO = Path(__file__).parents[1] / "docs" / "how-to"
CALL = ToolCall(id="c1", name="read", arguments='{"path":"a.py"}')


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page, each preceded by as many empty lines as stand before it in the document."""
    text = (HOW_TO / page).read_text("utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, block.start(1)) + block[1] for block in found]


def example(page: str) -> ModuleType:
    """Execute the Python blocks of a page as one module; tracebacks show the lines of the document."""
    module = ModuleType(page.removesuffix(".md").replace("-", "_"))
    for block in blocks(page, "python"):
        exec(compile(block, HOW_TO / page, "exec"), module.__dict__)  # noqa: S102 - the code of our own documents
    return module


@pytest.fixture(scope="module")
def echo() -> ModuleType:
    return example("add-a-backend.md")


@pytest.fixture(scope="module")
def lines() -> ModuleType:
    return example("add-a-protocol.md")


@pytest.fixture(scope="module")
def recorded() -> bytes:
    (transcript,) = blocks("add-a-protocol.md", "lines")
    return transcript.lstrip().encode()


@pytest.fixture(scope="module")
def recorded_request() -> bytes:
    (transcript,) = blocks("add-a-protocol.md", "lines-request")
    return transcript.lstrip().encode()


# ── A backend ────────────────────────────────────────────────────────────────────────────────────


def to_echo(*messages: Message | str, **fields: object) -> Request:
    """Return a request to the model of the example."""
    return replace(asks(*messages, **fields), model="echo/parrot")


async def events_of(echo: ModuleType, gateway: Gateway, request: Request) -> list[Event]:
    events: list[Event] = await echo.events_of(gateway, request)
    check(events)
    return events


async def test_the_example_backend_answers_through_a_gateway(echo: ModuleType) -> None:
    backend = echo.EchoBackend(lambda: "call-1")
    gateway: Gateway = echo.gateway_with(backend)
    reply = fold(await events_of(echo, gateway, to_echo("Hello?")))
    assert reply.parts == (Text(text="Hello?"),)
    assert reply.model == "echo/parrot"
    assert list(await gateway.models.all()) == ["echo/parrot"]
    assert [run.is_closed for run in backend.runs] == [True]


async def test_the_example_backend_is_parked_until_the_result_of_its_call_comes(echo: ModuleType) -> None:
    backend = echo.EchoBackend(lambda: "call-1")
    gateway: Gateway = echo.gateway_with(backend)
    reply = fold(await events_of(echo, gateway, to_echo("Look", tools=(READ,))))
    (call,) = reply.parts
    assert isinstance(call, ToolCall)
    assert (call.name, reply.finished.reason) == ("read", StopReason.TOOL_USE)
    assert gateway.metrics.parked == 1
    assert not backend.runs[0].is_closed

    result = ToolResult(call_id=call.id, content=(Text(text="sunny"),))
    request = to_echo("Look", says("assistant", call), says("user", result), tools=(READ,))
    assert fold(await events_of(echo, gateway, request)).parts == (Text(text="sunny"),)
    assert (gateway.metrics.parked, gateway.metrics.resumed) == (0, 1)
    assert [run.is_closed for run in backend.runs] == [True], "the same run answered, and was closed"


async def test_the_gateway_enforces_limits_for_the_example_backend(echo: ModuleType) -> None:
    gateway: Gateway = echo.gateway_with(echo.EchoBackend(lambda: "call-1"))
    request = to_echo("one STOP two", sampling=Sampling(stop=("STOP",)))
    reply = fold(await events_of(echo, gateway, request))
    assert reply.parts == (Text(text="one "),)
    assert reply.finished.reason is StopReason.STOP_SEQUENCE


# ── A protocol ───────────────────────────────────────────────────────────────────────────────────


def test_the_example_reader_understands_the_transcript_of_its_page(lines: ModuleType, recorded: bytes) -> None:
    events = read_stream(lines.ResponseReader(), [recorded])
    check(events)
    reply = fold(events)
    assert reply.parts == (Text(text="It is sunny."), CALL)
    assert (reply.id, reply.model) == ("r1", "small")
    assert (reply.usage.input, reply.usage.output) == (12, 7)
    assert reply.finished == Finished(reason=StopReason.TOOL_USE)


def test_the_example_reader_gives_the_same_events_wherever_the_stream_is_cut(
    lines: ModuleType, recorded: bytes
) -> None:
    whole = joined(read_stream(lines.ResponseReader(), [recorded]))
    for at in range(len(recorded)):
        assert joined(read_stream(lines.ResponseReader(), [recorded[:at], recorded[at:]])) == whole


def test_the_example_reader_keeps_the_grammar_wherever_the_stream_ends(lines: ModuleType, recorded: bytes) -> None:
    for end in range(len(recorded) - 1):
        events = read_stream(lines.ResponseReader(), [recorded[:end]])
        check(events)
        assert isinstance(events[-1], Failed)
    for damaged in (b"end\n", b"text 7\n", b"call {}\n", b"text " + b"x" * (lines.MAX_LINE + 1) + b"\n", b"\n\n"):
        events = read_stream(lines.ResponseReader(fallback_id="f", model="m"), [damaged])
        check(events)
        assert isinstance(events[-1], Failed)


def test_the_example_writer_is_read_back(lines: ModuleType, recorded: bytes) -> None:
    events = read_stream(lines.ResponseReader(), [recorded])
    written = write_stream(lines.ResponseWriter(), events)
    assert written == recorded
    assert lines.render(fold(events)).count(b"text") == 1, "a whole reply has its text in one piece"
    again = lines.read_reply(lines.render(fold(events)))
    check(again)
    assert fold(again) == fold(events)


def test_the_example_writer_reports_errors(lines: ModuleType) -> None:
    (failed,) = lines.read_reply(lines.render_error(BadRequest("no model")))
    assert failed == Failed(kind="upstream", message="no model")
    assert lines.read_error(429, b"slow down").status == 429


def test_the_example_request_survives_parsing_and_building(lines: ModuleType, recorded_request: bytes) -> None:
    request = lines.parse_request(recorded_request)
    assert request.model == "lines/small"
    assert [tool.name for tool in request.tools] == ["read"]
    assert lines.build_request(request).body == recorded_request

    result = ToolResult(call_id=CALL.id, content=(Text(text="print(1)"),))
    history = asks("Look", says("assistant", "Yes."), says("assistant", CALL), says("user", result))
    assert lines.parse_request(lines.build_request(history).body).messages == history.messages


@each(
    ("body", "message"),
    [(b"", "at least one"), (b"user 7", "line 1"), (b'user "a"\nshout "b"', "line 2: expected model")],
)
def test_the_example_parser_says_what_is_wrong(lines: ModuleType, body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        lines.parse_request(body)


async def test_the_example_protocol_works_on_both_sides_of_a_gateway(
    echo: ModuleType, lines: ModuleType, recorded: bytes, recorded_request: bytes
) -> None:
    async with ModelServer() as server:
        server.default(
            "/lines", Answer(chunks=(recorded[:30], recorded[30:]), headers=(("content-type", "text/plain"),))
        )
        client, tasks = HttpClient(), Tasks()
        origin, _ = Origin.parse(server.url)
        upstream = Upstream("lines", client, origin, "/lines", lines.CODEC, lambda: "id", Timeouts(), RetryPolicy())
        gateway: Gateway = echo.gateway_with(ReplayBackend(upstream, listing="/models", models=["small"]))
        frontend = lines.LinesFrontend(Relay(gateway, tasks), Profiles())
        routes = {"/v1/lines": {"POST": Route(frontend.answer, lines.render_error)}}
        app = HttpApp(routes, guard=Guard(), limit=1000, fallback=lambda _: lines.render_error)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            response = await http.post("/v1/lines", content=recorded_request)
            refused = await http.post("/v1/lines", content=b"user 7")
        await tasks.aclose()
        await client.aclose()
    assert server.requests[0].body == recorded_request.replace(b"lines/small", b"small")
    assert response.content == recorded.replace(b'"small"', b'"lines/small"')
    assert fold(lines.read_reply(response.content)).parts == (Text(text="It is sunny."), CALL)
    assert (refused.status_code, refused.content[:13]) == (400, b'error "line 1')
