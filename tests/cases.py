"""Requests and legs in neutral words that every codec is tried with."""

from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from tieline.model.assemble import PartsWriter
from tieline.model.content import STATE, File, Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import ErrorKind, Event, Failed, Finished, PartDelta, PartStart, Started, StopReason, Usage
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJSVFT0YK"
CACHED = {"cache_control": {"type": "ephemeral"}}

READ = ToolSpec(
    name="read",
    description="Read a file.",
    schema=b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}',
)
CLOCK = ToolSpec(name="clock", description="Tell the time.")
PATCH = ToolSpec(name="patch", description="Change files.", freeform=True)


def says(role: Role, *parts: Part | str) -> Message:
    """A message; a bare string is text."""
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def asks(*messages: Message | str, **fields: object) -> Request:
    """A request; a bare string is a user's message."""
    history = tuple(says("user", message) if isinstance(message, str) else message for message in messages)
    settings = {"sampling": Sampling(max_tokens=1024), **fields}
    return Request(model="test-model", messages=history, **settings)  # type: ignore[arg-type]  # any field of Request


def calls_and_results(calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...], **fields: object) -> Request:
    """A request that brings the results of calls."""
    settings = {"tools": (READ, CLOCK), **fields}
    return asks("go", says("assistant", *calls), says("user", *results), **settings)


def _read(call_id: str = "call_1", path: str = "a.py") -> ToolCall:
    return ToolCall(id=call_id, name="read", arguments=f'{{"path":"{path}"}}')


def _result(call_id: str = "call_1", *content: Text | Image | File, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, content=content or (Text(text="print(1)"),), is_error=is_error)


_ONE_CALL = (_read(),)
_STATE = {STATE: {"extra_content": '{"google":{"thought_signature":"c2ln"}}'}}

COMMON_CASES: Mapping[str, Request] = {
    # ── messages ──
    "text": asks("Hello"),
    "text of many scripts": asks('é 日本 😀 \u2028 \x7f "quoted" \\ back'),
    "no max_tokens": asks("Hello", sampling=Sampling()),
    "stream": asks("Hello", stream=True),
    "several texts": asks(says("user", "one", "two")),
    "conversation": asks("Hi", says("assistant", "Hello!"), "And now?"),
    "prefill": asks("Hi", says("assistant", "Hello")),
    "system": asks(says("system", "Be brief."), "Hi"),
    "system of several texts": asks(says("system", "Be brief.", "Be kind."), "Hi"),
    "several systems": asks(says("system", "Be brief."), says("system", "Be kind."), "Hi"),
    # ── thinking ──
    "thinking signed": asks("Hi", says("assistant", Thinking(text="hm", signature="c2ln"), "Hello!"), "And now?"),
    "thinking unsigned": asks("Hi", says("assistant", Thinking(text="hm"), "Hello!"), "And now?"),
    "thinking redacted": asks(
        "Hi", says("assistant", Thinking(signature="ZGF0YQ==", redacted=True), "Hello!"), "And now?"
    ),
    "thinking before a call": asks(
        "go",
        says("assistant", Thinking(text="hm", signature="c2ln"), "Let me look.", _read()),
        says("user", _result()),
        tools=(READ,),
    ),
    "provider state": asks(
        "go",
        Message(role="assistant", parts=(replace(_read(), meta=_STATE),), meta={STATE: {"reasoning_details": "[1]"}}),
        says("user", _result()),
        Message(role="assistant", parts=(Text(text="Done."),), meta=_STATE),
        "And now?",
        tools=(READ,),
    ),
    # ── images and files ──
    "image base64": asks(says("user", "What is this?", Image(media_type="image/png", data=PIXEL))),
    "image url": asks(says("user", Image(url="https://example.com/cat.png"), "What is this?")),
    "file base64": asks(says("user", File(media_type="application/pdf", data=PDF, name="a.pdf"), "Sum it up.")),
    "file url": asks(says("user", File(media_type="application/pdf", url="https://example.com/a.pdf"), "Sum it up.")),
    # ── calls and results ──
    "one call": calls_and_results(_ONE_CALL, (_result(),)),
    "parallel calls": calls_and_results(
        (_read(), _read("call_2", "b.py")), (_result(), _result("call_2", Text(text="print(2)")))
    ),
    "text and a call": asks("go", says("assistant", "Let me look.", _read()), says("user", _result()), tools=(READ,)),
    "a call without arguments": calls_and_results(
        (ToolCall(id="call_1", name="clock", arguments="{}"),), (_result("call_1", Text(text="noon")),)
    ),
    "a freeform call": calls_and_results(
        (ToolCall(id="call_1", name="patch", arguments="*** Begin\n+a\n", freeform=True),),
        (_result("call_1", Text(text="done")),),
        tools=(PATCH,),
    ),
    "arguments as they came": calls_and_results(
        (ToolCall(id="call_1", name="read", arguments='{ "b": 1.0, "a": "\\u00e9/" }'),), (_result(),)
    ),
    "a result of several texts": calls_and_results(_ONE_CALL, (_result("call_1", Text(text="a"), Text(text="b")),)),
    "an empty result": calls_and_results(_ONE_CALL, (ToolResult(call_id="call_1"),)),
    "a result with an image": calls_and_results(
        _ONE_CALL, (_result("call_1", Text(text="here"), Image(media_type="image/png", data=PIXEL)),)
    ),
    "an error result": calls_and_results(_ONE_CALL, (_result("call_1", Text(text="no such file"), is_error=True),)),
    "a result and more text": asks(
        "go", says("assistant", *_ONE_CALL), says("user", _result(), "Be quick."), tools=(READ,)
    ),
    "ids of another dialect": calls_and_results((_read("functions.read:0"),), (_result("functions.read:0"),)),
    # ── tools ──
    "tools": asks("Hi", tools=(READ, CLOCK)),
    "a strict tool": asks(
        "Hi",
        tools=(ToolSpec(name="read", schema=READ.schema, strict=True),),
    ),
    "a freeform tool": asks("Hi", tools=(PATCH,)),
    "choice auto": asks("Hi", tools=(READ,), tool_choice=ToolChoice(given=True)),
    "choice none": asks("Hi", tools=(READ,), tool_choice=ToolChoice(mode="none", given=True)),
    "choice required": asks("Hi", tools=(READ,), tool_choice=ToolChoice(mode="required", given=True)),
    "choice of one": asks(
        "Hi", tools=(READ, CLOCK), tool_choice=ToolChoice(mode="required", names=("read",), given=True)
    ),
    "choice of several": asks(
        "Hi",
        tools=(READ, CLOCK, ToolSpec(name="write")),
        tool_choice=ToolChoice(mode="required", names=("read", "clock"), given=True),
    ),
    "one call at a time": asks("Hi", tools=(READ,), tool_choice=ToolChoice(parallel=False, given=True)),
    "many calls at a time": asks("Hi", tools=(READ,), tool_choice=ToolChoice(parallel=True, given=True)),
    # ── settings ──
    "temperature and stop": asks("Hi", sampling=Sampling(max_tokens=10, temperature=0.5, stop=("END", "STOP"))),
    "top_p": asks("Hi", sampling=Sampling(max_tokens=10, top_p=0.9)),
    "temperature and top_p": asks("Hi", sampling=Sampling(max_tokens=10, temperature=0.5, top_p=0.9)),
    "top_k": asks("Hi", sampling=Sampling(max_tokens=10, top_k=40)),
    "reasoning off": asks("Hi", reasoning=Reasoning(mode="off")),
    "reasoning budget": asks("Hi", sampling=Sampling(max_tokens=8192), reasoning=Reasoning(mode="budget", budget=4096)),
    "reasoning adaptive": asks("Hi", reasoning=Reasoning(mode="adaptive")),
    "reasoning effort": asks("Hi", reasoning=Reasoning(effort="high")),
    "output json": asks("Hi", output=OutputFormat()),
    "output schema": asks(
        "Hi",
        output=OutputFormat(
            schema=b'{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}'
        ),
    ),
    "output named and strict": asks(
        "Hi",
        output=OutputFormat(
            name="answer",
            schema=b'{"type":"object","properties":{},"additionalProperties":false}',
            strict=True,
        ),
    ),
    "cache marks": asks(
        Message(role="system", parts=(Text(text="Be brief.", meta=CACHED),)),
        Message(role="user", parts=(Text(text="Hi", meta=CACHED),)),
        tools=(ToolSpec(name="read", schema=READ.schema, meta=CACHED),),
    ),
    "user": asks("Hi", user="user-1"),
    "cache key": asks("Hi", cache_key="key-1"),
    "unknown fields": asks("Hi", extra={"vendor_field": Raw(b'{"a": 1}')}),
}


# ── Legs ─────────────────────────────────────────────────────────────────────────────────────────

EXTRA = {"extra_content": '{"google":{"thought_signature":"c2ln"}}'}
USAGE = Usage(input=11, output=7)
STARTED = Started(id="msg_1", model="test-model")


def leg(*parts: tuple[Part, list[str]], reason: StopReason = StopReason.END_TURN, usage: Usage = USAGE) -> list[Event]:
    """A leg of whole parts, each given empty and with the pieces of its text."""
    writer = PartsWriter()
    for number, (part, pieces) in enumerate(parts):
        writer.start(number, part)
        for piece in pieces:
            writer.add(number, piece)
        writer.end(number)
    return [STARTED, *writer.take(), usage, Finished(reason=reason)]


_HELLO: tuple[Part, list[str]] = (Text(), ["Hel", "lo", "!"])
_CALL: tuple[Part, list[str]] = (ToolCall(id="call_1", name="read"), ['{"pa', 'th":', '"a.py"}'])
_OTHER: tuple[Part, list[str]] = (ToolCall(id="call_2", name="read"), ['{"path":', '"b.py"}'])
_REASONS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL, StopReason.REFUSAL, StopReason.PAUSED, StopReason.CANCELLED)

COMMON_LEGS: Mapping[str, list[Event]] = {
    "text": leg(_HELLO),
    "text of many scripts": leg((Text(), ["é", "日本", "😀", '\u2028\x7f"\\\n', "\x00"])),
    "nothing": leg(),
    "thinking unsigned": leg((Thinking(), ["h", "m"]), _HELLO),
    "thinking signed": leg((Thinking(signature="c2ln"), ["h", "m"]), _HELLO),
    "thinking redacted": leg((Thinking(signature="ZGF0YQ==", redacted=True), []), _HELLO),
    "one call": leg(_CALL, reason=StopReason.TOOL_USE),
    "text and a call": leg(_HELLO, _CALL, reason=StopReason.TOOL_USE),
    "parallel calls": leg(_CALL, _OTHER, reason=StopReason.TOOL_USE),
    "a call without arguments": leg((ToolCall(id="call_1", name="clock"), ["{}"]), reason=StopReason.TOOL_USE),
    "thinking, text and calls": leg((Thinking(), ["hm"]), _HELLO, _CALL, _OTHER, reason=StopReason.TOOL_USE),
    "a freeform call": leg(
        (ToolCall(id="call_1", name="patch", freeform=True), ["*** Be", "gin\n"]), reason=StopReason.TOOL_USE
    ),
    "an id of another dialect": leg(
        (ToolCall(id="functions.read:0", name="read"), ['{"path":"a.py"}']), reason=StopReason.TOOL_USE
    ),
    "a call cut short": leg((ToolCall(id="call_1", name="read"), ['{"path":', '"a']), reason=StopReason.MAX_TOKENS),
    "usage with cache": leg(_HELLO, usage=Usage(input=11, output=7, cache_read=100, cache_write=20)),
    "usage with reasoning": leg(_HELLO, usage=Usage(input=11, output=7, reasoning=5)),
    "stop sequence": [*leg(_HELLO)[:-1], Finished(reason=StopReason.STOP_SEQUENCE, sequence="END")],
    "refusal in words": leg((Text(refusal=True), ["I can", "not."]), reason=StopReason.REFUSAL),
    "refusal with an ordinary ending": leg((Text(refusal=True), ["I can", "not."])),
    "provider state": [
        *leg((ToolCall(id="call_1", name="read", meta={STATE: EXTRA}), ['{"path":"a.py"}']))[:-1],
        Finished(reason=StopReason.TOOL_USE, meta={STATE: {"reasoning_details": '[{"data":"x"}]', **EXTRA}}),
    ],
    **{f"ends with {reason.value}": leg(_HELLO, reason=reason) for reason in _REASONS},
}

STATUSES: Mapping[ErrorKind, int] = {
    "bad_request": 400,
    "unauthorized": 401,
    "billing": 402,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "cancelled": 499,
    "internal": 500,
    "upstream": 502,
    "overloaded": 503,
    "timeout": 504,
}
"""The status of each kind of error, written out here so that tests do not compare the gateway with itself."""

FAILURES: Mapping[str, Failed] = {
    kind: Failed(kind=kind, message=f"what happened: {kind}", status=status) for kind, status in STATUSES.items()
}

FAILED_LEGS: Mapping[str, list[Event]] = {
    **{f"{kind} at once": [failed] for kind, failed in FAILURES.items()},
    **{f"{kind} after the start": [STARTED, failed] for kind, failed in FAILURES.items()},
    "overloaded inside text": [
        STARTED,
        PartStart(index=0, part=Text()),
        PartDelta(index=0, text="Hel"),
        FAILURES["overloaded"],
    ],
    "upstream inside a call": [
        STARTED,
        PartStart(index=0, part=ToolCall(id="call_1", name="read")),
        PartDelta(index=0, text='{"pa'),
        FAILURES["upstream"],
    ],
}
