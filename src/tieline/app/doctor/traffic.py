"""Reads what a gateway has recorded about its requests, and turns it into a short transcript."""

from collections.abc import Iterator, Sequence
from typing import Any

from tieline.app.gateway_models import fetch
from tieline.app.local_gateway import LocalGateway
from tieline.core.watch.record import LegSummary
from tieline.model.content import Value

MAX_LEGS = 60
"""Maximum number of requests in a transcript. The others are only counted."""
MAX_VALUE = 400
"""Maximum number of characters in a text, the arguments of a call, or a result."""


class _Legs(Value):
    legs: tuple[LegSummary, ...] = ()


async def recorded_legs(gateway: LocalGateway) -> Sequence[LegSummary]:
    """Return the recorded legs, the oldest first. Raise GatewayError if the gateway does not answer."""
    return tuple(reversed((await fetch(gateway, "/api/traffic", _Legs)).legs))


async def transcript(gateway: LocalGateway, legs: Sequence[LegSummary]) -> list[str]:
    """Return the lines of a transcript: requests, results, calls and endings. Secrets have been removed."""
    lines: list[str] = []
    for number, leg in enumerate(legs[:MAX_LEGS], 1):
        lines += _lines(number, leg, await fetch(gateway, f"/api/traffic/{leg.id}", dict[str, Any]))
    if len(legs) > MAX_LEGS:
        lines.append(f"… and {len(legs) - MAX_LEGS} more requests")
    return lines


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
    """Describe what the request adds to the conversation: the parts of user messages since the model's last one."""
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
    """Return `text` on one line, shortened in the middle if it is long."""
    line = " ".join(text.split())
    half = MAX_VALUE // 2
    return line if len(line) <= MAX_VALUE else f"{line[:half]} … {line[-half:]}"
