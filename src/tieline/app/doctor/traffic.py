"""Reads what a gateway has recorded about its requests, and turns it into a short transcript."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from tieline.app.local_gateway import LocalGateway
from tieline.core.watch.record import LegSummary
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.net.client.http import HttpClient, Origin, PipeError, Timeouts

BODY_LIMIT = 16 << 20
MAX_LEGS = 60
"""Number of requests in a transcript. The others are only counted."""
MAX_VALUE = 400
"""Maximum number of characters of a text, the arguments of a call, or a result."""

T = TypeVar("T")

_TIMEOUTS = Timeouts(connect=5, first_byte=10, idle=10)


class _Legs(Value):
    legs: tuple[LegSummary, ...] = ()


class _Model(Value):
    id: str


class _Models(Value):
    data: tuple[_Model, ...] = ()


class GatewayRecords:
    """Access to the records of a gateway. Methods raise GatewayError if the gateway does not answer as expected."""

    def __init__(self, client: HttpClient, gateway: LocalGateway) -> None:
        self._client = client
        self._gateway = gateway

    async def legs(self) -> Sequence[LegSummary]:
        """Return the recorded legs, the oldest first."""
        return tuple(reversed((await self._get("/api/traffic", _Legs)).legs))

    async def models(self) -> list[str]:
        """Return the names of all models."""
        return [model.id for model in (await self._get("/v1/models", _Models)).data]

    async def transcript(self) -> list[str]:
        """Return the lines of a transcript: requests, results, calls and endings. Secrets have been removed."""
        legs = await self.legs()
        lines: list[str] = []
        for number, leg in enumerate(legs[:MAX_LEGS], 1):
            lines += _lines(number, leg, await self._get(f"/api/traffic/{leg.id}", dict[str, Any]))
        if len(legs) > MAX_LEGS:
            lines.append(f"… and {len(legs) - MAX_LEGS} more requests")
        return lines

    async def _get(self, path: str, kind: type[T]) -> T:
        origin, prefix = Origin.parse(self._gateway.url)
        headers = [("authorization", f"Bearer {self._gateway.key}")] if self._gateway.key else []
        try:
            response = await self._client.send(origin, "GET", prefix + path, headers, timeouts=_TIMEOUTS)
            body = await response.read(BODY_LIMIT)
        except PipeError as error:
            raise GatewayError("upstream", f"the gateway does not answer: {error.message}") from error
        if response.status != 200:
            raise GatewayError("upstream", f"the gateway answered {path} with status {response.status}")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise GatewayError("upstream", f"the gateway sent an invalid response: {error}") from error


def _lines(number: int, leg: LegSummary, detail: dict[str, Any]) -> Iterator[str]:
    request = detail["request"]
    tools = len(request.get("tools", ()))
    what = f"resumed, {tools} tools" if leg.resumed else f"{tools} tools"
    yield f"[{number}] {leg.frontend} request for {leg.model} from {leg.client or 'an unknown client'} ({what})"
    yield from _last_message(request["messages"])
    for timed in detail["events"]:
        yield from _event(timed["event"])
    took = "" if leg.duration is None else f" after {leg.duration:.2f} s"
    reason = f": {short(leg.message)}" if leg.message else ""
    yield f"    {leg.status}{took}{reason}"


def _last_message(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Describe what the request adds to the conversation: the parts of the messages since the model's last one."""
    ends = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    for message in messages[ends[-1] + 1 if ends else 0 :]:
        if message["role"] == "user":
            yield from (f"    {line}" for part in message["parts"] for line in _part(part))


def _event(event: dict[str, Any]) -> Iterator[str]:
    if event["type"] == "part_end":
        yield from (f"    → {line}" for line in _part(event["part"]))
    elif event["type"] == "finished":
        yield f"    → ending: {event.get('reason', '')}"
    elif event["type"] == "failed":
        yield f"    → failed: {short(event.get('message', ''))}"


def _part(part: dict[str, Any]) -> Iterator[str]:
    match part["type"]:
        case "text":
            yield f"text: {short(part.get('text', ''))}"
        case "tool_call":
            yield f"call: {part['name']} {short(part.get('arguments', ''))}"
        case "tool_result":
            texts = [one.get("text", f"({one['type']})") for one in part.get("content", ())]
            yield f"{'failed ' if part.get('is_error') else ''}result: {short(' '.join(texts))}"
        case "thinking":
            yield f"thinking: {short(part.get('text', ''))}"
        case kind:
            yield f"{kind}"


def short(text: str) -> str:
    """Return a text on one line, shortened in the middle if it is long."""
    line = " ".join(text.split())
    half = MAX_VALUE // 2
    return line if len(line) <= MAX_VALUE else f"{line[:half]} … {line[-half:]}"
