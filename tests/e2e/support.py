"""The real gateway over real HTTP, between the official clients and scripted upstreams.

Gateway and upstreams live in one thread with a loop of its own, so that blocking clients can be tested too. Backends
are named for what is behind them: `ant` speaks Messages, `oai` Chat Completions, `res` Responses, and `demo` is the
built-in model.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Literal, TypeVar

import pytest
import uvicorn

from tests.cases import leg
from tieline.app.build.application import build
from tieline.app.config import Config, ServerSettings, UpstreamSettings
from tieline.app.serve import server_config
from tieline.model.content import Part, Text, ToolCall
from tieline.model.events import Event, Failed, StopReason
from tieline.sim.answers import PATHS, Dialect, failed, streamed, whole
from tieline.sim.model import Answer, ModelServer, Received

T = TypeVar("T")
Backend = Literal["ant", "oai", "res"]

KEY = "gateway-key"
MODEL = "test-model"
PATIENCE = 60.0

DIALECTS: dict[Backend, Dialect] = {"ant": "anthropic", "oai": "openai", "res": "responses"}
BACKENDS = pytest.mark.parametrize("backend", list(DIALECTS))
FORMAT_FIELDS: dict[Backend, str] = {"ant": "output_config", "oai": "response_format", "res": "text"}
"""The field of a request with the schema of the answer."""


class Stand:
    """A running gateway and the upstreams behind it."""

    def __init__(self, url: str, upstreams: dict[Backend, ModelServer], loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.upstreams = upstreams
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop of the gateway."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, work: Callable[[], object]) -> None:
        """Do something in the loop of the gateway that needs no waiting."""
        self._loop.call_soon_threadsafe(work)

    def script(self, backend: Backend, *legs: Iterable[Event]) -> str:
        """Let an upstream answer with these legs, streamed or whole as it is asked; the model to ask for."""
        dialect = DIALECTS[backend]
        self.upstreams[backend].script(PATHS[dialect], *(_as_asked(dialect, list(leg)) for leg in legs))
        return f"{backend}/{MODEL}"

    def answer(self, backend: Backend, *answers: Answer) -> str:
        """Let an upstream answer with exactly this."""
        self.upstreams[backend].script(PATHS[DIALECTS[backend]], *answers)
        return f"{backend}/{MODEL}"

    def fail(self, backend: Backend, failure: Failed) -> str:
        """Let an upstream refuse."""
        return self.answer(backend, failed(DIALECTS[backend], failure))

    def asked(self, backend: Backend) -> list[Any]:
        """The bodies an upstream was asked with."""
        return [request.json for request in self.upstreams[backend].requests]

    def forget(self) -> None:
        """Make the stand as good as new."""
        for upstream in self.upstreams.values():
            upstream.forget()


def _as_asked(dialect: Dialect, events: list[Event]) -> Callable[[Received], Answer]:
    return lambda request: streamed(dialect, events) if request.json.get("stream") else whole(dialect, events)


@contextmanager
def serving(**settings: Any) -> Iterator[Stand]:
    """A stand of one's own; settings are those of the configuration's [server]."""
    started: list[Stand | BaseException] = []
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    def live() -> None:
        try:
            asyncio.run(_live(settings, started, stop, ready))
        except BaseException as error:
            started.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=live, name="gateway")
    thread.start()
    assert ready.wait(PATIENCE)
    stand = started[0]
    if isinstance(stand, BaseException):
        raise stand
    try:
        yield stand
    finally:
        stop[0]()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the gateway did not stop"


async def _live(
    settings: dict[str, Any],
    started: list[Stand | BaseException],
    stop: list[Callable[[], object]],
    ready: threading.Event,
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    async with AsyncExitStack() as stack:
        upstreams: dict[Backend, ModelServer] = {
            name: await stack.enter_async_context(ModelServer()) for name in DIALECTS
        }
        keys = {"ANT_KEY": "ant-secret", "OAI_KEY": "oai-secret", "RES_KEY": "res-secret"}
        app = build(_config(upstreams, settings), {"TIELINE_KEY": KEY, **keys})
        stack.push_async_callback(app.aclose)
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(server_config(app))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        started.append(Stand(f"http://127.0.0.1:{listener.getsockname()[1]}", upstreams, loop))
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        ready.set()
        await ended.wait()
        server.should_exit = True
        await serving


def _config(upstreams: dict[Backend, ModelServer], settings: dict[str, Any]) -> Config:
    return Config(
        server=ServerSettings(**settings),
        upstreams={
            "ant": UpstreamSettings(
                kind="anthropic", base_url=upstreams["ant"].url, key_env="ANT_KEY", models=(MODEL,), retries=0
            ),
            "oai": UpstreamSettings(
                kind="openai", base_url=f"{upstreams['oai'].url}/v1", key_env="OAI_KEY", models=(MODEL,), retries=0
            ),
            "res": UpstreamSettings(
                kind="openai",
                api="responses",
                base_url=f"{upstreams['res'].url}/v1",
                key_env="RES_KEY",
                models=(MODEL,),
                retries=0,
            ),
        },
    )


@pytest.fixture(scope="session")
def shared_stand() -> Iterator[Stand]:
    with serving() as stand:
        yield stand


@pytest.fixture
def gateway(shared_stand: Stand) -> Iterator[Stand]:
    """A running gateway with upstreams that have nothing to say yet."""
    shared_stand.forget()
    yield shared_stand
    shared_stand.forget()


def results_sent(backend: Backend, body: Any) -> list[tuple[str, str]]:
    """The ids and texts of the tool results that end a request to an upstream."""
    if backend == "res":
        outputs = [item for item in body["input"] if item["type"] == "function_call_output"]
        return [(item["call_id"], item["output"]) for item in outputs]
    if backend == "oai":
        return [(item["tool_call_id"], item["content"]) for item in body["messages"] if item["role"] == "tool"]
    last = body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result"] * len(last)
    return [(block["tool_use_id"], _text_of(block["content"])) for block in last]


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


# ── Legs the upstreams give ──────────────────────────────────────────────────────────────────────


def text(*pieces: str) -> list[Event]:
    return leg((Text(), list(pieces)))


def calls(*called: tuple[str, str, list[str]]) -> list[Event]:
    parts: list[tuple[Part, list[str]]] = [
        (ToolCall(id=call_id, name=name), pieces) for call_id, name, pieces in called
    ]
    return leg((Text(), ["Let me ", "look."]), *parts, reason=StopReason.TOOL_USE)


READS = calls(("toolu_1", "read_file", ['{"path"', ':"README.md"}']))
READS_BOTH = calls(("toolu_1", "read_file", ['{"path":', '"a.py"}']), ("toolu_2", "read_file", ['{"path":"b.py"', "}"]))
