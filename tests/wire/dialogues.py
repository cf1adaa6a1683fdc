"""Dialogues with the Cursor service: text files that say what comes in, what is done, what is sent and what happens.

One line per fact. `<` is what the service sends, `@` what is done to the run, `>` what the run sends, `=` an event it
gives. Messages stand in the JSON form of protobuf, under the name of their field in the envelope; a `>` line holds as
much of the message as matters. Everything from one `<` or `@` line to the next is its outcome.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format

from tieline.model.content import Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import (
    Activity,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Started,
    StopReason,
    Usage,
)
from tieline.model.request import Request, ToolSpec
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.run_request import MachineInfo, Opening, RunSettings, open_run
from tieline.wire.cursor.run.machine import CursorRun
from tieline.wire.cursor.run.query_replies import QuerySettings
from tieline.wire.cursor.stored_state import Blobs
from tieline.wire.framing.connect import COMPRESSED, END, TRAILERS, frame

_Decoder = json.JSONDecoder()


class Step(NamedTuple):
    """An input line and the lines that are its outcome."""

    line: str
    outcome: tuple[str, ...]

    @property
    def is_received(self) -> bool:
        return self.line.startswith("< ")


class Sent(NamedTuple):
    """A message the run sends: what it is called, and its JSON form."""

    name: str
    value: Any


def parse(text: str) -> list[Step]:
    """The steps of a dialogue."""
    steps: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(("< ", "@ ")):
            steps.append((line, []))
        elif line.startswith(("> ", "= ")):
            steps[-1][1].append(line)
    return [Step(line, tuple(outcome)) for line, outcome in steps]


def rewritten(text: str, outcomes: Sequence[Sequence[str]]) -> str:
    """The dialogue with these outcomes; comments and blank lines stay."""
    lines: list[str] = []
    left = iter(outcomes)
    for line in text.splitlines():
        if not line.startswith(("> ", "= ")):
            lines.append(line)
        if line.startswith(("< ", "@ ")):
            lines += next(left)
    return "\n".join(lines) + "\n"


# ── What comes in ────────────────────────────────────────────────────────────────────────────────


def received(line: str) -> bytes:
    """The bytes of a `<` line."""
    kind, _, rest = line.removeprefix("< ").partition(" ")
    match kind:
        case "end":
            return frame(rest.encode(), END)
        case "trailers":
            return frame(json.loads(rest).encode(), TRAILERS)
        case "payload":
            return frame(bytes.fromhex(rest))
        case "bytes":
            return bytes.fromhex(rest)
        case "page":
            return str(json.loads(rest)).encode()
        case "gzip":
            inner, _, value = rest.partition(" ")
            return frame(gzip.compress(_server_message(inner, json.loads(value)), mtime=0), COMPRESSED)
        case _:
            return frame(_server_message(kind, json.loads(rest)))


def _server_message(name: str, value: Any) -> bytes:
    field = next(
        (full for full in (name, f"{name}_message") if full in agent.AgentServerMessage.DESCRIPTOR.fields_by_name), name
    )
    field = "conversation_checkpoint_update" if name == "checkpoint" else field
    message = agent.AgentServerMessage()
    json_format.ParseDict({field: value}, message)
    return message.SerializeToString()


# ── The run ──────────────────────────────────────────────────────────────────────────────────────

_PATH = b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'
_TOOLS = {
    "read": ToolSpec(name="read", description="Read a file", schema=_PATH),
    "list": ToolSpec(name="list", description="List a folder", schema=_PATH),
    "bash": ToolSpec(
        name="bash",
        description="Run a command",
        schema=b'{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}',
    ),
    "grep": ToolSpec(
        name="grep",
        description="Search in files",
        schema=b'{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},'
        b'"required":["pattern"]}',
    ),
    "write": ToolSpec(
        name="write",
        description="Write a file",
        schema=b'{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},'
        b'"required":["path","content"]}',
    ),
    "glob": ToolSpec(
        name="glob",
        description="Find files",
        schema=b'{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},'
        b'"required":["pattern"]}',
    ),
    "weather": ToolSpec(
        name="weather",
        description="The weather of a city",
        schema=b'{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}',
    ),
}


@lru_cache
def _opening(tools: tuple[str, ...], past: tuple[str, ...]) -> Opening:
    said = [
        Message(role="assistant" if at % 2 else "user", parts=(Text(text=text),))
        for at, text in enumerate((*past, "Hello"))
    ]
    return open_run(
        Request(model="demo", messages=tuple(said), tools=tuple(_TOOLS[name] for name in tools)),
        settings=RunSettings(),
        machine_info=MachineInfo(os_version="linux 6.8.0", time_zone="UTC", workspace="/home/user/project"),
        conversation_id="conversation-1",
        run_id="run-1",
        message_id="message-1",
    )


class Player:
    """Plays the inputs of a dialogue to a run."""

    def __init__(self) -> None:
        self.run: CursorRun
        self._legs = count(1)

    def do(self, line: str) -> list[Event]:
        """Do what an `@` line says."""
        verb, _, rest = line.removeprefix("@ ").partition(" ")
        values: list[Any] = list(_values(rest)) if rest[:1] in ("{", "[", '"') else [rest]
        match verb:
            case "start":
                self._start(values[0] if rest else {})
                self._begin()
            case "leg":
                self._begin()
            case "answer":
                self.run.answer([_result(*item) for item in values[0].items()], *values[1:])
            case "hear":
                self.run.reply_to_plan(values[0])
            case "offer":
                self.run.set_tools(OfferedTools.of([_TOOLS[name] for name in values[0]]))
            case "finish":
                return self.run.finish(StopReason(rest))
            case "eof":
                return self.run.receive_eof(tuple(values[0].items()) if rest else ())
            case "wake" | "rescue" | "heartbeat" | "exec_heartbeat":
                return getattr(self.run, verb)() or []
            case _:
                raise AssertionError(f"nobody knows what this means: {line}")
        return self.run.pull()

    def _start(self, options: dict[str, Any]) -> None:
        opening = _opening(tuple(options.get("tools", ())), tuple(options.get("past", ())))
        minted = count(1)
        self.run = CursorRun(
            opening,
            mint=lambda: f"call_{next(minted)}",
            blobs=Blobs(opening.blobs, limit_each=options.get("limit", 1 << 20)),
            queries=QuerySettings(**options.get("queries", {})),
        )

    def _begin(self) -> None:
        self.run.begin(f"leg_{next(self._legs)}", "demo")


def _values(text: str) -> Iterator[Any]:
    while text := text.strip():
        value, end = _Decoder.raw_decode(text)
        yield value
        text = text[end:]


def _result(call_id: str, value: Any) -> ToolResult:
    if isinstance(value, dict):
        return ToolResult(call_id=call_id, content=(Text(text=value["error"]),), is_error=True)
    return ToolResult(call_id=call_id, content=(Text(text=value),))


# ── What comes of it ─────────────────────────────────────────────────────────────────────────────


def spell_sent(data: bytes) -> Sent:
    """A message as a `>` line names it; one that is not all in our schema as its bytes."""
    message = agent.AgentClientMessage.FromString(data)
    name = message.WhichOneof("message")
    value = json_format.MessageToDict(message)
    again = json_format.ParseDict(value, agent.AgentClientMessage())
    if name is None or again.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True):
        return Sent("bytes", data.hex())
    return Sent(name.removesuffix("_message"), next(iter(value.values())))


def matches(line: str, sent: Sent) -> bool:
    """Whether a `>` line is true of a message, as far as it goes."""
    name, _, rest = line.removeprefix("> ").partition(" ")
    expected = rest if name == "bytes" else json.loads(rest or "{}")
    return name == sent.name and _is_within(expected, sent.value)


def _is_within(expected: Any, value: Any) -> bool:
    match expected:
        case dict():
            return isinstance(value, dict) and all(
                name in value and _is_within(item, value[name]) for name, item in expected.items()
            )
        case list():
            return (
                isinstance(value, list)
                and len(value) == len(expected)
                and all(_is_within(one, other) for one, other in zip(expected, value, strict=True))
            )
        case _:
            return bool(expected == value)


def sent_line(sent: Sent) -> str:
    """A `>` line: the whole message, but for what others test."""
    value = sent.value
    if sent.name == "run_request":
        value = {}
    elif isinstance(value, dict) and "requestContextResult" in value:
        context = value["requestContextResult"]["success"]["requestContext"]
        told = {"tools": [{"toolName": tool["toolName"]} for tool in context["tools"]]} if "tools" in context else {}
        value = {"id": value["id"], "requestContextResult": {"success": {"requestContext": told}}}
    return f"> {sent.name} {value if sent.name == 'bytes' else json.dumps(value, ensure_ascii=False)}".rstrip()


def event_line(event: Event) -> str:
    """An `=` line."""
    return f"= {_event(event)}"


def _event(event: Event) -> str:
    match event:
        case Started():
            return f"started {event.id} {event.model}"
        case PartStart():
            return f"part_start {event.index} {_part(event.part)}"
        case PartDelta():
            return f"part_delta {event.index} {_quoted(event.text)}"
        case PartEnd():
            return f"part_end {event.index} {_part(event.part)}"
        case Usage():
            told = {name: getattr(event, name) for name in event.__struct_fields__}
            return f"usage {json.dumps({name: value for name, value in told.items() if value})}"
        case Note():
            return f"note {event.kind} {_quoted(event.message)}"
        case Finished():
            return f"finished {event.reason}"
        case Failed():
            return f"failed {event.kind} {event.status} {event.code} {_quoted(event.message)}"
        case Activity() | Plan():
            raise AssertionError(f"no agent is talked to here: {event}")


def _part(part: Part) -> str:
    match part:
        case Text():
            return f"text {_quoted(part.text)}".removesuffix(' ""')
        case Thinking():
            return f"thinking {_quoted(part.text)}".removesuffix(' ""')
        case ToolCall():
            return f"tool_call {part.id} {part.name} {part.arguments}".rstrip()
        case _:
            raise AssertionError(f"a run gives no such part: {part}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def paths() -> list[Path]:
    """All dialogues there are."""
    return sorted((Path(__file__).parent.parent / "transcripts" / "cursor").glob("*.dialogue"))
