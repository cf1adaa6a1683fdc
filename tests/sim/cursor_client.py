"""A small client of Cursor's protocol for tests: both transports, every message at hand, and an obedient mode."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset

from tieline.sim.cursor import CursorSim
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import aiserver_pb2 as aiserver
from tieline.wire.cursor._pb import context_pb2 as context
from tieline.wire.cursor._pb import conversation_pb2 as conversation
from tieline.wire.cursor._pb import exec_kinds_pb2 as kinds
from tieline.wire.cursor._pb import exec_pb2, kv_pb2
from tieline.wire.cursor._pb import shared_pb2 as shared
from tieline.wire.cursor.protobuf_json import arguments, to_value
from tieline.wire.framing.connect import Frame, FrameReader, frame

Transport = Literal["h1", "h2"]
TRANSPORTS: tuple[Transport, ...] = ("h1", "h2")
WAIT = 60.0
CONNECT = "application/connect+proto"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Not to load the machine's certificates for every client in the clear."""

Message = agent.AgentClientMessage


def run_request(words: str = "", *, state: bytes | None = b"", **fields: Any) -> Message:
    """The opening of a turn; without words it resumes, without a state it is not complete."""
    action = conversation.ConversationAction(resume_action=conversation.ResumeAction())
    if words:
        said = conversation.UserMessageAction(user_message=conversation.UserMessage(text=words))
        action = conversation.ConversationAction(user_message_action=said)
    given = {"action": action, "conversation_id": "conversation-1", **fields}
    given.setdefault("requested_model", shared.RequestedModel(model_id="demo"))
    request = agent.AgentRunRequest(**given)
    if state is not None:
        request.conversation_state.SetInParent()
        request.conversation_state.MergeFromString(state)
    return Message(run_request=request)


def tool(name: str, **properties: str) -> shared.McpToolDefinition:
    """An MCP tool all of whose properties are needed."""
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return shared.McpToolDefinition(
        name=f"mine-{name}", provider_identifier="mine", tool_name=name, input_schema=to_value(schema)
    )


def offering(*tools: shared.McpToolDefinition) -> shared.McpTools:
    return shared.McpTools(mcp_tools=tools)


def mcp_result(number: int, text: str) -> Message:
    content = kinds.McpToolResultContentItem(text=kinds.McpTextContent(text=text))
    result = kinds.McpResult(success=kinds.McpSuccess(content=[content]))
    return Message(exec_client_message=exec_pb2.ExecClientMessage(id=number, mcp_result=result))


def acknowledged(number: int) -> Message:
    return Message(kv_client_message=kv_pb2.KvClientMessage(id=number, set_blob_result=kv_pb2.SetBlobResult()))


class Call(ABC):
    """One run, open on one of the transports."""

    def __init__(self) -> None:
        self.request_id = str(uuid4())
        self.status = 0
        self.headers: dict[str, str] = {}
        self._frames: deque[Frame] = deque()
        self._reader = FrameReader()
        self.writes = 0
        """In how many pieces the answer came so far."""

    @abstractmethod
    async def send(self, message: Message) -> None:
        """Say something to the run."""

    @abstractmethod
    async def _chunk(self) -> bytes:
        """More of the answer, b"" at its end; raises ConnectionError when it breaks off."""

    async def frame(self) -> Frame | None:
        """The next frame, None when the body is over."""
        async with asyncio.timeout(WAIT):
            while not self._frames:
                data = await self._chunk()
                if not data:
                    return None
                self.writes += 1
                self._frames += self._reader.feed(data)
        return self._frames.popleft()

    async def message(self) -> agent.AgentServerMessage:
        """The next message; the stream must not be over."""
        found = await self.frame()
        assert found is not None
        assert found.flags == 0, found
        return agent.AgentServerMessage.FromString(found.payload)

    async def until(self, kind: str) -> agent.AgentServerMessage:
        """The next message of a kind, or update of a kind; what comes before it is thrown away."""
        while True:
            message = await self.message()
            if kind in (message.WhichOneof("message"), message.interaction_update.WhichOneof("message")):
                return message


class H1Call(Call):
    """A run over RunSSE, with an append for each message."""

    def __init__(self, client: httpx2.AsyncClient, content_type: str, headers: dict[str, str]) -> None:
        super().__init__()
        self.client = client
        self.seqno = 0
        self._content_type = content_type
        self._extra = headers
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def listen(self) -> None:
        body = frame(aiserver.BidiRequestId(request_id=self.request_id).SerializeToString())
        headers = {"content-type": self._content_type, **self._extra}
        request = self.client.build_request("POST", "/agent.v1.AgentService/RunSSE", content=body, headers=headers)
        self._response = await self.client.send(request, stream=True)
        self.status = self._response.status_code
        self.headers = dict(self._response.headers)
        self._chunks = self._response.aiter_raw()

    async def send(self, message: Message) -> None:
        seqno, self.seqno = self.seqno, self.seqno + 1
        assert (await self.append(seqno, message.SerializeToString())).status_code == 200

    async def append(self, seqno: int, data: bytes) -> httpx2.Response:
        """One append under a number of one's own."""
        body = aiserver.BidiAppendRequest(
            data=data.hex(), request_id=aiserver.BidiRequestId(request_id=self.request_id), append_seqno=seqno
        )
        headers = {"content-type": "application/proto", **self._extra}
        path = "/aiserver.v1.BidiService/BidiAppend"
        return await self.client.post(path, content=body.SerializeToString(), headers=headers)

    async def _chunk(self) -> bytes:
        if self._chunks is None:
            await self.listen()
        assert self._chunks is not None
        try:
            return await anext(self._chunks, b"")
        except httpx2.TransportError as error:
            raise ConnectionResetError(str(error)) from error

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()


class H2Call(Call):
    """A run on one HTTP/2 stream."""

    def __init__(self, connection: "H2Client", number: int) -> None:
        super().__init__()
        self.number = number
        self.ended = False
        self.was_reset = False
        self.data: deque[bytes] = deque()
        self.arrived = asyncio.Event()
        self.connection = connection

    async def send(self, message: Message) -> None:
        await self.write(frame(message.SerializeToString()))

    async def write(self, data: bytes) -> None:
        """Bytes on the request, in whatever frames they are."""
        await self.connection.write(self.number, data)

    def half_close(self) -> None:
        self.connection.h2.end_stream(self.number)
        self.connection.flush()

    def reset(self) -> None:
        self.connection.h2.reset_stream(self.number, 8)
        self.connection.flush()

    async def body(self) -> bytes:
        """All of the answer, whatever it is."""
        pieces = []
        while data := await self._chunk():
            pieces.append(data)
        return b"".join(pieces)

    async def _chunk(self) -> bytes:
        while not self.data:
            if self.was_reset:
                raise ConnectionResetError
            if self.ended:
                return b""
            self.arrived.clear()
            await self.arrived.wait()
        return self.data.popleft()


class H2Client:
    """An HTTP/2 connection with prior knowledge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.told_to_go = asyncio.Event()
        self.lost = False
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, H2Call] = {}
        self._widened = asyncio.Event()

        self.h2.initiate_connection()
        self.flush()

    async def run(self) -> None:
        try:
            while data := await self._reader.read(65536):
                for event in self.h2.receive_data(data):
                    self._handle(event)
                self._widened.set()
                self.flush()
        except ConnectionError:
            pass
        self.lost = True
        for call in self._calls.values():
            call.was_reset = not call.ended
            call.arrived.set()

    def open(self, path: str, headers: Sequence[tuple[str, str]]) -> H2Call:
        number = self.h2.get_next_available_stream_id()
        pseudo = [(":method", "POST"), (":path", path), (":authority", "localhost"), (":scheme", "http")]
        self.h2.send_headers(number, [*pseudo, *headers])
        self.flush()
        call = self._calls[number] = H2Call(self, number)
        return call

    async def write(self, number: int, data: bytes) -> None:
        while data:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
            if room <= 0:
                self._widened.clear()
                await self._widened.wait()
                continue
            self.h2.send_data(number, data[:room])
            self.flush()
            data = data[room:]

    def flush(self) -> None:
        self._writer.write(self.h2.data_to_send())

    def close(self) -> None:
        self._writer.close()

    def _handle(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            self.told_to_go.set()
        call = self._calls.get(getattr(event, "stream_id", 0) or 0)
        if call is None:
            return
        match event:
            case ResponseReceived():
                call.headers = {str(name): str(value) for name, value in event.headers or ()}
                call.status = int(call.headers[":status"])
            case DataReceived():
                call.data.append(event.data or b"")
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, call.number)
            case StreamEnded():
                call.ended = True
            case StreamReset():
                call.was_reset = True
            case _:
                return
        call.arrived.set()


@asynccontextmanager
async def h2_client(sim: CursorSim, tls: ssl.SSLContext | None = None) -> AsyncIterator[H2Client]:
    address = urlsplit(sim.url)
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls, server_hostname=name)
    client = H2Client(reader, writer)
    reading = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def calling(
    sim: CursorSim, transport: Transport, *, content_type: str = CONNECT, token: str = ""
) -> AsyncIterator[Call]:
    """An open call, before anything was said."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if transport == "h1":
        async with httpx2.AsyncClient(base_url=sim.url, timeout=WAIT, verify=NO_TLS) as client:
            call = H1Call(client, content_type, headers)
            yield call
            await call.aclose()
    else:
        async with h2_client(sim) as connection:
            yield connection.open(
                "/agent.v1.AgentService/Run", [("content-type", content_type), ("te", "trailers"), *headers.items()]
            )


class Obedient:
    """Answers whatever the server asks, as Cursor's own client does, and gathers what it says."""

    def __init__(self, call: Call, tools: Callable[[str, str], str] | None = None) -> None:
        self.call = call
        self.tools = tools
        self.blobs: dict[bytes, bytes] = {}
        self.context = context.RequestContext()
        self.closes_streams = True
        self.text = ""
        self.thinking = ""
        self.arguments: list[str] = []
        """What partial calls said of their arguments."""
        self.updates: list[str] = []
        self.execs: list[exec_pb2.ExecServerMessage] = []
        self.checkpoints: list[conversation.ConversationStateStructure] = []
        self.usage: Any = None
        self.end: Frame | None = None

    async def turn(self, request: Message) -> str:
        """A whole turn; the text of it."""
        await self.call.send(request)
        await self.listen()
        return self.text

    async def listen(self) -> None:
        """Everything up to the end of the stream."""
        while (found := await self.call.frame()) is not None:
            if found.flags:
                self.end = found
            else:
                await self.hear(agent.AgentServerMessage.FromString(found.payload))

    async def hear(self, message: agent.AgentServerMessage) -> None:
        match message.WhichOneof("message"):
            case "interaction_update":
                self._update(message)
            case "kv_server_message":
                await self._keep(message.kv_server_message)
            case "exec_server_message":
                self.execs.append(message.exec_server_message)
                await self._do(message.exec_server_message)
            case "conversation_checkpoint_update":
                self.checkpoints.append(message.conversation_checkpoint_update)
            case _:
                pass

    def _update(self, message: agent.AgentServerMessage) -> None:
        update = message.interaction_update
        self.updates.append(update.WhichOneof("message") or "")
        self.text += update.text_delta.text
        self.thinking += update.thinking_delta.text
        if update.HasField("partial_tool_call"):
            self.arguments.append(update.partial_tool_call.args_text_delta)
        if update.HasField("turn_ended"):
            self.usage = update.turn_ended

    async def _keep(self, message: kv_pb2.KvServerMessage) -> None:
        if message.HasField("set_blob_args"):
            self.blobs[message.set_blob_args.blob_id] = message.set_blob_args.blob_data
            await self.call.send(acknowledged(message.id))
            return
        result = kv_pb2.GetBlobResult()
        if (data := self.blobs.get(message.get_blob_args.blob_id)) is not None:
            result.blob_data = data
        answer = kv_pb2.KvClientMessage(id=message.id, get_blob_result=result)
        await self.call.send(Message(kv_client_message=answer))

    async def _do(self, message: exec_pb2.ExecServerMessage) -> None:
        if message.HasField("request_context_args"):
            success = context.RequestContextSuccess(request_context=self.context)
            result = context.RequestContextResult(success=success)
            told = exec_pb2.ExecClientMessage(id=message.id, request_context_result=result)
            await self.call.send(Message(exec_client_message=told))
        elif message.HasField("mcp_args") and self.tools is not None:
            args = message.mcp_args
            await self.call.send(mcp_result(message.id, self.tools(args.tool_name, arguments(args.args))))
        else:
            return
        if self.closes_streams:
            await self.call.send(closed(message.id))


def closed(number: int) -> Message:
    control = exec_pb2.ExecClientControlMessage(stream_close=exec_pb2.ExecClientStreamClose(id=number))
    return Message(exec_client_control_message=control)
