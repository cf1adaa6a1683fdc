"""A turn on a WebSocket that another replica answers: the message is sent there as an HTTP request of its own."""

from typing import Self

import msgspec
from msgspec import Raw

from tieline.frontends.http import Exchange
from tieline.frontends.replicas import PeerFailed, PeerRequest, PeerResponse, Replicas
from tieline.frontends.responses.creation import Creation
from tieline.model.errors import GatewayError
from tieline.wire.framing.sse import SseOverflow, SseReader
from tieline.wire.openai_responses.frames import events_in
from tieline.wire.shared.json import encode

TARGET = "/v1/responses"
MAX_ERROR = 64 * 1024
_WEBSOCKET = b"sec-websocket-"
_MESSAGE_FIELDS = ("type", "stream_id", "generate", "background", "previous_response_id")
"""Fields of a message that are left out of the forwarded request, whose input contains the whole history instead."""
_ENDINGS = frozenset(("response.completed", "response.incomplete"))


class _Response(msgspec.Struct):
    id: str = ""


class _Event(msgspec.Struct):
    type: str
    response: Raw = Raw(b"null")


class _ForwardedError(msgspec.Struct):
    error: dict[str, object] = {}


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_ERROR = msgspec.json.Decoder(_ForwardedError)


class ForwardedTurn:
    """The events of a response that another replica creates. Iterate over them, then close the turn."""

    def __init__(self, answer: PeerResponse) -> None:
        self._answer = answer
        self._reader = SseReader()
        self.response = b""
        """The complete response as JSON; empty until it has ended, or if it failed."""
        self.response_id = ""

    @classmethod
    async def open(cls, replicas: Replicas, exchange: Exchange, creation: Creation) -> Self | None:
        """Send the turn to the replica that has to answer it. Return None if it has to be answered here."""
        headers = [field for field in exchange.header_fields if not field[0].startswith(_WEBSOCKET)]
        turn = PeerRequest("POST", TARGET, [*headers, (b"content-type", b"application/json")], b"")
        owner = replicas.owner_of_turn(creation.request)
        if owner is None:
            return None
        answer = await replicas.open(exchange, owner, turn._replace(body=_body(creation)))
        return None if answer is None else cls(answer)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        """Return the next events, each as JSON.

        Raise GatewayError if the other replica refuses the turn or is gone, or if an event is too large.
        """
        try:
            if self._answer.status != 200:
                raise await self._error()
            data = await self._answer.chunk()
        except PeerFailed as error:
            message = "The replica that was creating this response is gone; send the request again."
            raise GatewayError("overloaded", message) from error
        if not data:
            raise StopAsyncIteration
        try:
            events = events_in(self._reader.whole(data))
        except SseOverflow as error:
            raise GatewayError("upstream", f"The response of another replica cannot be passed on: {error}.") from error
        for event in events:
            self._note(event)
        return events

    def close(self) -> None:
        """Release the connection. If the response is not complete, it is cancelled."""
        self._answer.close()

    def _note(self, event: bytes) -> None:
        shape = _EVENT.decode(event)
        if shape.type in _ENDINGS:
            self.response = bytes(shape.response)
            self.response_id = _RESPONSE.decode(self.response).id

    async def _error(self) -> GatewayError:
        body = b""
        while len(body) < MAX_ERROR and (data := await self._answer.chunk()):
            body += data
        try:
            error = _ERROR.decode(body).error
        except msgspec.DecodeError:
            error = {}
        message = str(error.get("message") or "The replica that holds this run refused the request.")
        code, param = error.get("code"), error.get("param")
        return GatewayError(
            "upstream",
            message,
            status=self._answer.status,
            code=str(code) if code else None,
            param=str(param) if param else None,
        )


def _body(creation: Creation) -> bytes:
    """Return the message as the body of an HTTP request that contains its whole history.

    The history may be known on this connection only. The items of a conversation are left out, because it is stored for
    all replicas.
    """
    create = creation.create
    members = {name: value for name, value in create.fields.items() if name not in _MESSAGE_FIELDS}
    members["stream"] = Raw(b"true")
    if not create.model and creation.request.model:
        members["model"] = Raw(encode(creation.request.model))
    if create.conversation is None:
        items = [*map(Raw, creation.context.items), *creation.input()]
        members["input"] = Raw(encode(items))
    return encode(members)
