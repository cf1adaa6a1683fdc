"""Convert the demo model's reply to the events of a leg, with small deltas, ids and token counts.

Each word counts as one token, and so does each group of a few characters in the arguments of a call. The client's token
limit and stop sequences apply. Ids are derived from the request, so the same request always yields the same events.
"""

import hashlib
import re
from collections.abc import Iterator

from tieline.demo.reply_steps import CallTool, DemoReply, Say, Silence, Think
from tieline.model.assemble import PartsWriter, reason_for
from tieline.model.content import File, Foreign, Image, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, Started, StopReason, Usage
from tieline.model.request import Request

_WORD = re.compile(r"\s*\S{1,16}|\s+")
_FEW = re.compile(r".{1,6}", re.DOTALL)
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 22


def to_events(reply: DemoReply, request: Request) -> Iterator[Event | Silence]:
    """Yield the events of a leg, and the pauses between them (`Silence`)."""
    if isinstance(reply.ending, Failed) and not reply.steps:
        yield reply.ending
        return
    seed = _digest(request)
    yield Started(id=f"demo_{_letters(seed, 'leg')}", model=request.model)
    writer = _ReplyWriter(request, seed, exact=isinstance(reply.ending, Finished))
    for step in reply.steps:
        if isinstance(step, Silence):
            yield step
        else:
            writer.add(step)
            yield from writer.parts.take()
        if writer.cut is not None:
            break
    if isinstance(reply.ending, Failed) and writer.cut is None:
        yield reply.ending
        return
    yield reply.usage or writer.usage()
    yield writer.cut or reply.ending or Finished(reason=reason_for(writer.parts.calls, StopReason.END_TURN))


def _digest(request: Request) -> bytes:
    """Return a hash of the model name and the messages of a request."""
    hashed = hashlib.sha256(request.model.encode("utf-8", "replace"))
    for message in request.messages:
        hashed.update(b"\0" + message.role.encode())
        for part in message.parts:
            for text in _strings(part):
                hashed.update(b"\1" + text.encode("utf-8", "replace"))
    return hashed.digest()


class _ReplyWriter:
    """Writes the parts of a leg within the client's limits. Once a limit is reached, `cut` is the ending of the leg.

    If `exact` is true, there are no limits.
    """

    def __init__(self, request: Request, seed: bytes, *, exact: bool) -> None:
        self.parts = PartsWriter()
        self.cut: Finished | None = None
        self._request = request
        self._seed = seed
        self._left = None if exact else request.sampling.max_tokens
        self._stops = () if exact else tuple(stop for stop in request.sampling.stop if stop)
        self._spoken = 0
        self._thought = 0

    def add(self, step: Think | Say | CallTool) -> None:
        match step:
            case Think():
                self._thought += self._speak(Thinking(), _WORD.findall(step.text))
            case Say():
                text, sequence = self._stopped(step.text)
                self._speak(Text(), _WORD.findall(text))
                if sequence is not None and self.cut is None:
                    self.cut = self._stop_at(sequence)
            case CallTool():
                call_id = f"call_{_letters(self._seed, str(self.parts.calls))}"
                call = ToolCall(id=call_id, name=step.name, freeform=step.freeform)
                self._speak(call, _FEW.findall(step.arguments))

    def usage(self) -> Usage:
        said = (text for message in self._request.messages for part in message.parts for text in _strings(part))
        asked = sum(len(text.split()) for text in said)
        offered = sum(len(tool.description.split()) + len(tool.schema) // 8 for tool in self._request.tools)
        return Usage(input=max(1, asked + offered), output=max(1, self._spoken), reasoning=self._thought)

    def _speak(self, part: Part, tokens: list[str]) -> int:
        """Write as much of one part as the token limit allows. Return the number of tokens written."""
        if self._left is not None and self._left < len(tokens):
            self.cut = Finished(reason=StopReason.MAX_TOKENS)
            tokens = tokens[: self._left]
        if tokens or self.cut is None:
            self.parts.start("part", part)
            for token in tokens:
                self.parts.add("part", token)
            self.parts.end("part")
        if self._left is not None:
            self._left -= len(tokens)
        self._spoken += len(tokens)
        return len(tokens)

    def _stopped(self, text: str) -> tuple[str, str | None]:
        """Return the text before the first stop sequence, and that sequence.

        If there is none, return the text and None.
        """
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if not found:
            return text, None
        at, stop = min(found)
        return text[:at], stop

    def _stop_at(self, sequence: str) -> Finished:
        reason = reason_for(self.parts.calls, StopReason.STOP_SEQUENCE)
        return Finished(reason=reason, sequence=sequence if reason is StopReason.STOP_SEQUENCE else None)


def _strings(part: Part) -> tuple[str, ...]:
    match part:
        case Text() | Thinking():
            return (part.text,)
        case Image() | File():
            return (part.data or "", part.url or "")
        case ToolCall():
            return (part.id, part.name, part.arguments)
        case ToolResult():
            return (part.call_id, *(text for inner in part.content for text in _strings(inner)))
        case Foreign():
            return (part.json,)


def _letters(seed: bytes, salt: str) -> str:
    """Return a string of letters and digits that looks random, but depends only on `seed` and `salt`."""
    number = int.from_bytes(hashlib.sha256(seed + salt.encode()).digest(), "big")
    letters = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return "".join(letters)
