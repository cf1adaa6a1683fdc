"""How clients reach the simulated service: both HTTP versions, TLS, every content type, appends in any order."""

import asyncio
import gzip
import ssl
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import trustme

from tests.each import each
from tests.sim.cursor_client import (
    TRANSPORTS,
    WAIT,
    Call,
    H1Call,
    H2Call,
    Message,
    Obedient,
    Transport,
    acknowledged,
    calling,
    h2_client,
    offering,
    run_request,
    tool,
)
from tieline.sim.cursor import CursorSim, SimSettings, Style, Tls
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.framing.connect import FrameReader, frame

RUN = "/agent.v1.AgentService/Run"
RUN_SSE = "/agent.v1.AgentService/RunSSE"
APPEND = "/aiserver.v1.BidiService/BidiAppend"
GRPC_WEB = "application/grpc-web+proto"
WARM_UP = bytes.fromhex("0a03666f6f")


# ── Framing ──────────────────────────────────────────────────────────────────────────────────────


@each("transport", TRANSPORTS)
@each(
    ("style", "header"),
    [
        (Style(gzip=True), "gzip"),
        (Style(gzip=True, announce=False), None),
        (Style(piece=1), None),
        (Style(batch=1), None),
        (Style(batch=1000), None),
    ],
    ids=["gzip", "gzip-unannounced", "byte-by-byte", "one-by-one", "coalesced"],
)
async def test_frames_may_be_compressed_split_and_coalesced(
    transport: Transport, style: Style, header: str | None
) -> None:
    async with CursorSim(SimSettings(style=style)) as sim, calling(sim, transport) as call:
        client = Obedient(call)
        assert await client.turn(run_request("say one two three four")) == "one two three four"
        assert call.headers.get("connect-content-encoding") == header
        assert client.end is not None
        assert client.end.payload == b"{}"


async def test_a_stream_in_small_pieces_comes_in_more_writes_than_a_coalesced_one() -> None:
    writes = []
    for style in (Style(batch=1), Style(batch=1000)):
        async with CursorSim(SimSettings(style=style)) as sim, calling(sim, "h1") as call:
            await Obedient(call).turn(run_request("say " + "word " * 60))
            writes.append(call.writes)
    assert writes[0] > 10 * writes[1]


async def test_the_client_may_compress_and_cut_its_frames_too() -> None:
    async with CursorSim() as sim, calling(sim, "h2") as call:
        assert isinstance(call, H2Call)
        packed = gzip.compress(run_request("say hello").SerializeToString())
        for byte in frame(packed, 1):
            await call.write(bytes([byte]))
        client = Obedient(call)
        await client.listen()
        assert client.text == "hello"


# ── The transport with two calls ─────────────────────────────────────────────────────────────────


async def test_the_first_append_may_come_before_anybody_listens() -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        await call.send(run_request("say hello"))
        assert sim.runs == 0
        client = Obedient(call)
        await client.listen()
        assert client.text == "hello"


async def test_somebody_may_listen_before_the_first_append() -> None:
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        assert (await call.message()).interaction_update.HasField("heartbeat")
        client = Obedient(call)
        assert await client.turn(run_request("say hello")) == "hello"


async def test_appends_count_by_their_number_not_by_when_they_come() -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        await call.append(0, _with_context("say hello").SerializeToString())
        sets = [(await call.until("kv_server_message")).kv_server_message.id for _ in range(2)]
        await call.append(2, acknowledged(sets[1]).SerializeToString())
        await call.append(1, acknowledged(sets[0]).SerializeToString())
        assert (await call.until("text_delta")).interaction_update.text_delta.text == "hello"
        assert sim.appends == 3


async def test_an_append_that_came_before_is_ignored_so_that_a_client_with_two_counters_stalls() -> None:
    """Spec: this is what the first clients that could not continue a run fell into."""
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        await call.append(0, _with_context("say hello").SerializeToString())
        sets = [(await call.until("kv_server_message")).kv_server_message.id for _ in range(2)]
        await call.append(1, acknowledged(sets[0]).SerializeToString())
        await call.append(1, acknowledged(sets[1]).SerializeToString())
        for _ in range(10):
            assert (await call.message()).interaction_update.WhichOneof("message") == "heartbeat"
        assert sim.journal[-1].duplicates == 1
        await call.append(2, acknowledged(sets[1]).SerializeToString())
        await call.until("text_delta")


@pytest.mark.parametrize("first", [0, 1])
async def test_an_editors_warm_up_is_no_message_and_the_count_may_begin_at_one(first: int) -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        if first == 0:
            await call.append(0, WARM_UP)
        call.seqno = 1
        assert await Obedient(call).turn(run_request("say hello")) == "hello"


async def test_an_append_may_be_json_binary_or_compressed() -> None:
    async with CursorSim() as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        data = run_request("say hello").SerializeToString()
        body = {"data": data.hex(), "requestId": {"requestId": call.request_id}, "appendSeqno": "0"}
        answer = await call.client.post(APPEND, json=body)
        assert (answer.status_code, answer.json()) == (200, {})
        heartbeat = Message(client_heartbeat=agent.ClientHeartbeat()).SerializeToString()
        request_id = aiserver.BidiRequestId(request_id=call.request_id)
        binary = aiserver.BidiAppendRequest(data_binary=heartbeat, request_id=request_id, append_seqno=1)
        headers = {"content-type": "application/proto", "content-encoding": "gzip"}
        packed = gzip.compress(binary.SerializeToString())
        answer = await call.client.post(APPEND, content=packed, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        call.seqno = 2
        client = Obedient(call)
        await client.listen()
        assert client.text == "hello"
        assert sim.journal[-1].kinds[:2] == ["run_request", "client_heartbeat"]


async def test_an_append_to_a_run_that_is_over_is_accepted_and_ignored() -> None:
    """A heartbeat may cross the end of its run, and a client that is refused then would think the run has failed."""
    async with CursorSim() as sim, calling(sim, "h1") as call:
        assert isinstance(call, H1Call)
        await Obedient(call).turn(run_request("say hello"))
        assert (await call.append(99, b"whatever")).status_code == 200
        assert sim.runs == 1


async def test_only_one_may_listen_to_a_run() -> None:
    async with CursorSim(SimSettings(heartbeat=0.01)) as sim, calling(sim, "h1") as call, calling(sim, "h1") as other:
        await call.message()
        other.request_id = call.request_id
        found = await other.frame()
        assert found is not None
        assert (found.flags, msgspec.json.decode(found.payload)["error"]["code"]) == (2, "already_exists")


async def test_both_calls_work_over_http2_as_well() -> None:
    async with CursorSim() as sim, h2_client(sim) as connection:
        sse = connection.open(RUN_SSE, [("content-type", "application/connect+proto")])
        await sse.write(frame(aiserver.BidiRequestId(request_id="r").SerializeToString()))
        sse.half_close()
        append = connection.open(APPEND, [("content-type", "application/proto")])
        data = _with_context("say hello").SerializeToString().hex()
        await append.write(
            aiserver.BidiAppendRequest(data=data, request_id=aiserver.BidiRequestId(request_id="r")).SerializeToString()
        )
        append.half_close()
        assert (await sse.until("kv_server_message")).kv_server_message.HasField("set_blob_args")
        assert append.status == 200


# ── Clients that others wrote ────────────────────────────────────────────────────────────────────


async def test_a_grpc_web_client_gets_envelopes_and_trailers() -> None:
    """Seen with a public client: enveloped appends, no answer to the context question, history written as text."""
    weather = tool("get_weather", city="string")
    async with CursorSim() as sim, httpx2.AsyncClient(base_url=sim.url, timeout=WAIT) as http:
        call = H1Call(http, GRPC_WEB, {})
        words = "User: what is the weather in Oslo?"
        message = _with_context(words, mcp_tools=offering(weather))
        answer = await _grpc_append(http, call.request_id, 0, message)
        assert answer.headers["content-type"] == GRPC_WEB
        assert answer.content == frame(b"") + frame(b"grpc-status: 0\r\n", 0x80)
        for number in (1, 2):
            kv = (await call.until("kv_server_message")).kv_server_message
            await _grpc_append(http, call.request_id, number, acknowledged(kv.id))
        found = (await call.until("exec_server_message")).exec_server_message
        assert found.mcp_args.tool_name == "get_weather"
        await call.aclose()
        again = H1Call(http, GRPC_WEB, {})
        told = (
            f'{words}\n\nAssistant: [Called tool: get_weather({{"city":"Oslo"}})]'
            "\n\n[Tool result for s__c1]: sunny, 20C\n\n\n"
            "Based on the tool results above, please continue your response:"
        )
        await _grpc_append(http, again.request_id, 0, _with_context(told, mcp_tools=offering(weather)))
        client = _GrpcObedient(again)
        await client.listen()
        assert client.text == "`get_weather` returned: sunny, 20C"
        assert client.end is not None
        assert (client.end.flags, client.end.payload) == (0x80, b"grpc-status: 0\r\n")
        assert again.headers["content-type"] == GRPC_WEB
        await again.aclose()


async def test_a_refused_grpc_web_run_says_so_in_its_trailers() -> None:
    async with CursorSim() as sim, httpx2.AsyncClient(base_url=sim.url, timeout=WAIT) as http:
        call = H1Call(http, GRPC_WEB, {})
        await _grpc_append(http, call.request_id, 0, run_request("hello", state=None))
        client = Obedient(call)
        await client.listen()
        assert client.end is not None
        assert client.end.flags == 0x80
        assert client.end.payload == b"grpc-status: 3\r\ngrpc-message: Conversation%20state%20is%20required\r\n"
        await call.aclose()


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────


async def test_tls_speaks_both_versions_and_does_not_insist_on_what_was_agreed(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    files = Tls(tmp_path / "certificate.pem", tmp_path / "key.pem")
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    files.key.write_bytes(made.private_key_pem.bytes())
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    sim = CursorSim()
    await sim.start(tls=files)
    async with sim:
        assert sim.url.startswith("https://")
        async with h2_client(sim, trust) as connection:
            call = connection.open(RUN, [("content-type", "application/connect+proto")])
            assert await Obedient(call).turn(run_request("say hello")) == "hello"
        address = f"https://localhost:{sim.port}"
        async with httpx2.AsyncClient(base_url=address, verify=trust, timeout=WAIT) as http:
            assert await Obedient(H1Call(http, "application/connect+proto", {})).turn(run_request("say hi")) == "hi"
        assert [head.version for head in sim.requests if head.path in (RUN, RUN_SSE)] == ["2", "1.1"]


@pytest.mark.parametrize(
    ("path", "content_type", "settings", "status"),
    [
        (RUN, "application/connect+proto", SimSettings(), 464),
        (RUN_SSE, "application/connect+proto", SimSettings(http1=False), 464),
        (APPEND, "application/proto", SimSettings(http1=False), 464),
        (RUN_SSE, "application/json", SimSettings(), 415),
        (RUN_SSE, "text/plain", SimSettings(), 415),
        (APPEND, "text/plain", SimSettings(), 415),
        (APPEND, "application/proto", SimSettings(), 400),
        (RUN_SSE, "application/connect+proto", SimSettings(), 200),
    ],
)
async def test_what_cannot_be_read_or_carried_is_refused(
    path: str, content_type: str, settings: SimSettings, status: int
) -> None:
    async with CursorSim(settings) as sim, httpx2.AsyncClient(base_url=sim.url, timeout=WAIT) as http:
        answer = await http.post(path, content=b"\xff\xff\xff", headers={"content-type": content_type})
        assert answer.status_code == status
        if status == 200:
            # A stream says what is wrong in its end frame.
            (end,) = FrameReader().feed(answer.content)
            assert msgspec.json.decode(end.payload)["error"]["code"] == "invalid_argument"


async def test_bytes_that_are_no_http_are_answered_and_the_connection_ends() -> None:
    async with CursorSim() as sim:
        for garbage in (b"\x16\x03\x01 nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 256 * 1024):
            reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
            writer.write(garbage)
            async with asyncio.timeout(WAIT):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 400")
            writer.close()


async def test_a_broken_http2_preface_or_frame_ends_the_connection_and_nothing_else() -> None:
    async with CursorSim() as sim:
        for garbage in (b"PRI * HTTP", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
            writer.write(garbage)
            writer.write_eof()
            async with asyncio.timeout(WAIT):
                await reader.read()
            writer.close()
        async with calling(sim, "h2") as call:
            assert await Obedient(call).turn(run_request("say hello")) == "hello"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_large_blob_passes_both_ways(transport: Transport) -> None:
    """Larger than any window, so that flow control has to work on both sides."""
    words = "x" * 3_000_000
    async with CursorSim() as sim, calling(sim, transport) as call:
        client = Obedient(call)
        await client.turn(run_request(words))
        assert any(len(data) > 3_000_000 for data in client.blobs.values())
        first = client
        async with calling(sim, transport) as second:
            client = Obedient(second)
            client.blobs = first.blobs
            state = first.checkpoints[-1].SerializeToString()
            assert await client.turn(run_request("say hello", state=state)) == "hello"


async def test_a_client_that_closes_its_side_and_is_asked_something_is_told_that_this_is_the_end() -> None:
    async with CursorSim(SimSettings(context_patience=0.01)) as sim, calling(sim, "h2") as call:
        assert isinstance(call, H2Call)
        await call.send(run_request("say hello"))
        call.half_close()
        while (found := await call.frame()) is not None and not found.flags:
            pass
        assert found is not None
        assert msgspec.json.decode(found.payload)["error"]["code"] == "canceled"


async def test_a_stream_that_is_reset_ends_its_run_and_no_other() -> None:
    async with CursorSim() as sim, h2_client(sim) as connection:
        headers = [("content-type", "application/connect+proto")]
        one, two = connection.open(RUN, headers), connection.open(RUN, headers)
        for call in (one, two):
            await call.send(_with_context("say hello"))
            await call.until("kv_server_message")
        one.reset()
        async with asyncio.timeout(WAIT):
            await sim.until(lambda: any(record.ending == "left" for record in sim.journal))
        assert sim.open_runs == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_many_clients_are_served_at_once_and_never_mixed(transport: Transport) -> None:
    async def one(sim: CursorSim, number: int) -> str:
        async with calling(sim, transport) as call:
            return await Obedient(call).turn(run_request(f"say {number} " + "word " * 50))

    async with CursorSim() as sim:
        texts = await asyncio.gather(*(one(sim, number) for number in range(64)))
        assert texts == [f"{number} {'word ' * 50}".strip() for number in range(64)]
        assert sim.runs == sim.legs == 64


async def test_shutting_down_ends_what_is_under_way() -> None:
    async with CursorSim() as sim, calling(sim, "h2") as call:
        await call.send(_with_context("say hello"))
        await call.until("kv_server_message")
        async with asyncio.timeout(WAIT):
            await sim.aclose()
        assert sim.journal[-1].ending == "left"
        with pytest.raises(ConnectionError):
            await call.until("text_delta")


class _GrpcObedient(Obedient):
    """The same in envelopes."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        assert isinstance(call, H1Call)
        call.seqno = 1

        async def send(message: Message) -> None:
            await _grpc_append(call.client, call.request_id, call.seqno, message)
            call.seqno += 1

        self.call.send = send  # type: ignore[method-assign]  # the one thing that differs


async def _grpc_append(http: httpx2.AsyncClient, request_id: str, seqno: int, message: Message) -> httpx2.Response:
    body = aiserver.BidiAppendRequest(
        data=message.SerializeToString().hex(),
        request_id=aiserver.BidiRequestId(request_id=request_id),
        append_seqno=seqno,
    )
    return await http.post(APPEND, content=frame(body.SerializeToString()), headers={"content-type": GRPC_WEB})


def _with_context(words: str, **fields: Any) -> Message:
    request = run_request(words, **fields)
    request.run_request.action.user_message_action.request_context.CopyFrom(context.RequestContext())
    return request
