"""How the service is reached: by which transport, as whom, and what it is asked beside the runs."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
import trustme

from tests.e2e.cursor_support import DIALECTS, TRANSPORTS, Dialect, Stand, Transport, calls, eager, serving
from tests.wire.coding_clients import WEATHER
from tieline.sim.cursor import CursorSim, SimSettings
from tieline.wire.cursor._pb.shared_pb2 import AGENT_MODE_AGENT, AGENT_MODE_ASK, AGENT_MODE_DEBUG, AGENT_MODE_PLAN

__all__ = ["eager"]

pytestmark = pytest.mark.usefixtures("eager")

RUN = "/agent.v1.AgentService/Run"
RUN_SSE = "/agent.v1.AgentService/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"


def runs(stand: Stand) -> list[str]:
    """Where runs were asked for, in order."""
    return [head.path for head in stand.sim.requests if head.path in (RUN, RUN_SSE)]


# ── Transports ───────────────────────────────────────────────────────────────────────────────────


@DIALECTS
async def test_a_service_that_takes_no_http1_gets_http2_and_the_next_run_knows(dialect: Dialect) -> None:
    async with serving("auto", SimSettings(http1=False)) as stand:
        talk = stand.talk(dialect, WEATHER)
        stand.plays(["open", calls("Oslo"), {"wait": "exec"}, {"text": "Fine."}, "close"])
        answer = await talk.say("How is the weather?")
        assert answer.called == [("get_weather", {"city": "Oslo"})]
        assert (await talk.give("sunny")).text == "Fine."
        assert runs(stand) == [RUN_SSE, RUN]
        assert (await talk.say("say bye")).text == "bye"
        assert runs(stand) == [RUN_SSE, RUN, RUN]


@asynccontextmanager
async def knows_no_http2(sim: CursorSim) -> AsyncIterator[str]:
    """Something before the service that takes HTTP/1.1 only, as proxies do."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(65536)
        if first.startswith(b"PRI * HTTP/2"):
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()
            return
        behind, into = await asyncio.open_connection("127.0.0.1", sim.port)
        into.write(first)
        await asyncio.gather(carry(reader, into), carry(behind, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@DIALECTS
async def test_a_way_that_carries_no_http2_gets_http1_and_the_next_run_knows(dialect: Dialect) -> None:
    async with serving("auto", SimSettings(http2_config=2), through=knows_no_http2) as stand:
        assert (await stand.talk(dialect).say("say hello")).text == "hello"
        assert (await stand.talk(dialect).say("say hello")).text == "hello"
        assert runs(stand) == [RUN_SSE, RUN_SSE]


@pytest.mark.parametrize(("config", "path"), [(0, RUN_SSE), (1, RUN_SSE), (2, RUN), (3, RUN_SSE), (4, RUN)])
async def test_left_to_the_service_the_transport_is_what_its_configuration_says(config: int, path: str) -> None:
    settings = SimSettings(http2_config=config)  # type: ignore[arg-type]  # one of them
    async with serving("auto", settings) as stand:
        assert (await stand.talk("openai").say("say hello")).text == "hello"
        assert (await stand.talk("openai").say("say hello")).text == "hello"
        assert runs(stand) == [path, path]
        asked = [head.path for head in stand.sim.requests if head.path.endswith("GetServerConfig")]
        assert len(asked) == 1


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """Somebody whose certificates this machine trusts, as it trusts those of the real service."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


def with_certificate(authority: trustme.CA, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(list(protocols))
    return context


@DIALECTS
@pytest.mark.parametrize(("config", "path"), [(0, RUN), (1, RUN_SSE), (2, RUN), (3, RUN_SSE), (4, RUN)])
async def test_over_tls_a_run_is_one_stream_unless_the_configuration_says_otherwise(
    authority: trustme.CA, dialect: Dialect, config: int, path: str
) -> None:
    settings = SimSettings(http2_config=config)  # type: ignore[arg-type]  # one of them
    async with serving("auto", settings, tls=with_certificate(authority, "h2", "http/1.1")) as stand:
        talk = stand.talk(dialect, WEATHER)
        answer = await talk.say("call get_weather with Oslo, then call get_weather with Rome")
        while answer.wants_tools:
            answer = await talk.give("sunny")
        assert answer.is_over
        assert runs(stand) == [path]
        versions = {head.path: head.version for head in stand.sim.requests}
        assert versions[path] == ("2" if path == RUN else "1.1")


async def test_over_tls_a_service_that_agrees_on_http1_only_gets_http2_all_the_same(authority: trustme.CA) -> None:
    """As Cursor's own client does: what the handshake chose says nothing of what the service takes."""
    async with serving("auto", tls=with_certificate(authority, "http/1.1")) as stand:
        assert (await stand.talk("openai").say("say hello")).text == "hello"
        assert runs(stand) == [RUN]


@TRANSPORTS
async def test_a_certificate_nobody_vouches_for_is_told(transport: Transport) -> None:
    async with serving(transport, tls=with_certificate(trustme.CA(), "h2", "http/1.1")) as stand:
        with pytest.raises(openai.APIStatusError, match=r"(?i)certificate") as caught:
            await stand.talk("openai").say("say hello")
        assert caught.value.status_code == 502
        assert runs(stand) == []


# ── Messages on their way ────────────────────────────────────────────────────────────────────────


async def test_over_http1_every_message_is_numbered_by_one_counter_and_none_is_sent_twice() -> None:
    async with serving("http1") as stand:
        talk = stand.talk("openai", WEATHER)
        answer = await talk.say("call get_weather with Oslo, then call get_weather with Rome")
        while answer.wants_tools:
            answer = await talk.give("sunny")
        await stand.ended()
        record = stand.record
        assert record.duplicates == 0
        assert stand.sim.appends == len(record.received)
        assert len({head.header("x-request-id") for head in stand.sim.requests if head.path == APPEND}) == 1


@TRANSPORTS
async def test_many_runs_share_connections(transport: Transport) -> None:
    async with serving(transport) as stand:
        for _ in range(5):
            await stand.talk("openai").say("say hello")
        assert stand.sim.connections <= (1 if transport == "http2" else 3)


# ── Who asks ─────────────────────────────────────────────────────────────────────────────────────


@TRANSPORTS
async def test_runs_say_who_asks_and_how_private_it_is(transport: Transport) -> None:
    settings: Any = {"client_version": "cli-2031.01.01", "client_type": "cli", "machine_id": "m" * 64}
    async with serving(transport, **settings) as stand:
        await stand.talk("openai").say("say hello")
        head = stand.record.head
        assert head.bearer == "demo"
        assert head.header("x-cursor-client-version") == "cli-2031.01.01"
        assert head.header("x-cursor-client-type") == "cli"
        assert head.header("x-ghost-mode") == "true"
        assert head.header("x-cursor-checksum")


@pytest.mark.parametrize(("mode", "header"), [(1, "true"), (2, "true"), (3, "false")])
async def test_privacy_that_is_left_open_is_what_the_account_says(mode: int, header: str) -> None:
    async with serving("http2", SimSettings(privacy_mode=mode), ghost_mode=None) as stand:
        await stand.talk("openai").say("say hello")
        assert stand.record.head.header("x-ghost-mode") == header


# ── Models ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_models_of_the_account_are_listed_for_both_clients() -> None:
    async with serving("http2") as stand:
        chat = [model.id async for model in stand.openai.models.list()]
        messages = [model.id async for model in stand.anthropic.models.list()]
        assert {"cursor/demo", "cursor/demo-thinking", "cursor/demo-large", "cursor/auto"} <= set(chat)
        assert {"cursor/demo", "cursor/auto"} <= set(messages)
        assert (await stand.openai.models.retrieve("cursor/demo")).id == "cursor/demo"


@TRANSPORTS
@DIALECTS
@pytest.mark.parametrize(
    ("option", "mode"),
    [
        ("", AGENT_MODE_AGENT),
        ("?mode=agent", AGENT_MODE_AGENT),
        ("?mode=ask", AGENT_MODE_ASK),
        ("?mode=plan", AGENT_MODE_PLAN),
        ("?mode=debug", AGENT_MODE_DEBUG),
    ],
)
async def test_the_name_of_a_model_may_choose_the_mode(
    transport: Transport, dialect: Dialect, option: str, mode: int
) -> None:
    async with serving(transport) as stand:
        assert (await stand.talk(dialect, model=f"cursor/demo{option}").say("say hello")).text == "hello"
        request = stand.record.received[0].run_request
        assert request.requested_model.model_id == "demo"
        assert request.action.user_message_action.user_message.mode == mode
        assert request.conversation_state.mode == mode


@TRANSPORTS
async def test_parameters_of_a_model_are_passed_on(transport: Transport) -> None:
    async with serving(transport) as stand:
        talk = stand.talk("openai", model="cursor/demo?thinking=true&effort=high")
        assert (await talk.say("say hello")).thinking
        request = stand.record.received[0].run_request
        given = {one.id: one.value for one in request.requested_model.parameters}
        assert given == {"thinking": "true", "effort": "high"}


@TRANSPORTS
async def test_auto_is_the_service_s_own_default(transport: Transport) -> None:
    async with serving(transport) as stand:
        assert (await stand.talk("openai", model="cursor/auto").say("say hello")).text == "hello"
        assert stand.record.received[0].run_request.requested_model.model_id == "default"
