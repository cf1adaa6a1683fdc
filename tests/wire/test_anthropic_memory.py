"""What was written of a conversation is remembered, and nobody can tell by the bytes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tieline.model.content import Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.anthropic import Dialect, build_request
from tieline.wire.anthropic.fragments import Memory, Piece

MARKED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
METAS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {}, {}, MARKED])
WORDS = st.sampled_from(["", " ", "a", "words ", 'a "quote"', "für\n", "😀"])
REFERENCE = {"anthropic": {"block": '{"type":"tool_reference","tool_name":"read"}'}}
TEXTS = st.builds(Text, text=WORDS, meta=METAS)
SHOWN = st.one_of(
    TEXTS,
    st.builds(Image, media_type=st.sampled_from(["image/png", "image/odd"]), data=st.just("AAAA"), meta=METAS),
    st.builds(Text, text=st.just("loaded"), meta=st.just(REFERENCE)),
)
RESULTS = st.builds(
    ToolResult,
    call_id=st.sampled_from(["c1", "c:2"]),
    content=st.lists(SHOWN, max_size=2).map(tuple),
    is_error=st.booleans(),
    meta=METAS,
)
CALLS = st.builds(
    ToolCall,
    id=st.sampled_from(["c1", "c:2"]),
    name=st.sampled_from(["read", "my.tool", "my_tool", "n" * 70]),
    arguments=st.sampled_from(["{}", '{"a": 1}', "", "broken"]),
    freeform=st.booleans(),
    meta=METAS,
)
THOUGHTS = st.builds(Thinking, text=WORDS, signature=st.sampled_from(["s", "s", "s", None]), redacted=st.booleans())
FOREIGN = st.builds(Foreign, protocol=st.sampled_from(["anthropic", "other"]), kind=st.just("x"), json=st.just("{}"))
IN_PLACE: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"anthropic": {"in_place": True}}])


def messages(role: str, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
    metas = IN_PLACE if role == "system" else st.just({})
    several = st.lists(parts, max_size=3).map(tuple)
    return st.builds(Message, role=st.just(role), parts=several, meta=metas)


CONVERSATIONS = st.lists(
    st.one_of(
        messages("user", st.one_of(TEXTS, SHOWN, RESULTS, FOREIGN)),
        messages("assistant", st.one_of(TEXTS, CALLS, THOUGHTS, FOREIGN)),
        messages("user", TEXTS),
        messages("assistant", TEXTS),
        messages("system", TEXTS),
    ),
    min_size=1,
    max_size=9,
)
TOOLS: st.SearchStrategy[tuple[ToolSpec, ...]] = st.sampled_from(
    [
        (),
        (ToolSpec(name="read"),),
        (ToolSpec(name="read", meta=MARKED), ToolSpec(name="my.tool")),
        (ToolSpec(name="my_tool"), ToolSpec(name="my.tool"), ToolSpec(name="n" * 70), ToolSpec(name="n" * 70)),
        (ToolSpec(name="read"), ToolSpec(name="late", meta={"anthropic": {"defer_loading": True}})),
        (ToolSpec(name="read"), ToolSpec(name="search", hosted="web_search")),
    ]
)
SETTINGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tools": TOOLS,
        "tool_choice": st.sampled_from([ToolChoice(), ToolChoice(mode="none"), ToolChoice(names=("read", "my.tool"))]),
        "protocol": st.sampled_from(["", "anthropic"]),
        "output": st.sampled_from([None, OutputFormat()]),
        "reasoning": st.sampled_from([Reasoning(), Reasoning(mode="budget", budget=2000)]),
        "sampling": st.sampled_from([Sampling(), Sampling(max_tokens=9000, temperature=0.5, top_p=0.5)]),
    }
)
DIALECTS = st.sampled_from(
    [Dialect(), Dialect(system_in_messages=False, extensions=False), Dialect(cache="off", strict_tools=False)]
)


def outcome(request: Request, dialect: Dialect, memory: Memory) -> Any:
    """What is built, or why nothing is."""
    try:
        built = build_request(request, dialect, memory)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same with a memory
        return type(error), str(error)
    return built.body, built.notes, built.spelled.freeform


@given(CONVERSATIONS, st.lists(st.tuples(st.integers(1, 9), SETTINGS, DIALECTS), min_size=2, max_size=6))
def test_a_conversation_that_is_told_again_is_written_as_if_it_were_new(
    told: list[Message], legs: list[tuple[int, dict[str, Any], Dialect]]
) -> None:
    memory, small = Memory(), Memory(max_bytes=700, max_pieces=6)
    for length, settings_, dialect in legs:
        request = Request(model="m", messages=tuple(told[:length]), **settings_)
        fresh = outcome(request, dialect, Memory(max_bytes=0))
        assert outcome(request, dialect, memory) == fresh
        assert outcome(request, dialect, small) == fresh


@given(CONVERSATIONS, SETTINGS, DIALECTS)
def test_a_conversation_that_grows_is_written_as_if_it_were_new(
    told: list[Message], settings_: dict[str, Any], dialect: Dialect
) -> None:
    memory = Memory()
    for length in range(1, len(told) + 1):
        request = Request(model="m", messages=tuple(told[:length]), **settings_)
        assert outcome(request, dialect, memory) == outcome(request, dialect, Memory(max_bytes=0))


PLAIN = st.sampled_from(["a", "words ", "für"])
SIGNED = st.builds(Thinking, text=PLAIN, signature=st.just("s"))
LOOPS = st.lists(
    st.tuples(
        st.one_of(
            st.builds(Message, role=st.just("user"), parts=st.builds(Text, text=PLAIN).map(lambda part: (part,))),
            st.builds(Message, role=st.just("user"), parts=st.lists(RESULTS, max_size=2).map(tuple)),
        ),
        st.one_of(
            st.builds(Message, role=st.just("assistant"), parts=st.builds(Text, text=PLAIN).map(lambda part: (part,))),
            st.builds(Message, role=st.just("assistant"), parts=st.lists(CALLS, max_size=2).map(tuple)),
            st.builds(Message, role=st.just("assistant"), parts=SIGNED.map(lambda part: (part, Text(text="a")))),
        ),
    ),
    min_size=6,
    max_size=12,
).map(lambda pairs: [message for pair in pairs for message in pair])
LEGS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 24), CONVERSATIONS, SETTINGS, DIALECTS), max_size=4)


@given(LOOPS, LEGS)
def test_a_long_conversation_that_takes_another_way_is_written_as_if_it_were_new(
    told: list[Message], legs: list[tuple[int, int, list[Message], dict[str, Any], Dialect]]
) -> None:
    memory = Memory()
    build_request(Request(model="m", messages=tuple(told)), memory=memory)
    for length, kept, other, settings_, dialect in legs:
        for messages_ in (told[:length], [*told[:kept], *other], told):
            request = Request(model="m", messages=tuple(messages_), **settings_)
            fresh = outcome(request, dialect, Memory(max_bytes=0))
            assert outcome(request, dialect, memory) == fresh


def long_conversation(turns: int) -> tuple[Message, ...]:
    roles: list[Any] = ["user", "assistant"]
    return tuple(Message(role=roles[at % 2], parts=(Text(text=f"words {at}"),)) for at in range(turns))


def test_the_beginning_of_a_long_conversation_is_one_piece() -> None:
    memory, told = Memory(), long_conversation(41)
    build_request(Request(model="m", messages=told[:21]), memory=memory)
    for message in told[:18]:  # of these nothing is asked for again
        memory.keep(id(message), Piece(None, b"wrong"))
    for length in (21, 23, 25, 31, 41):
        built = build_request(Request(model="m", messages=told[:length]), memory=memory)
        assert built == build_request(Request(model="m", messages=told[:length]), memory=Memory())


def test_a_piece_that_takes_the_place_of_another_weighs_once() -> None:
    memory = Memory(max_bytes=100)
    memory.keep("other", Piece(None, b"x" * 10))
    for _ in range(20):
        memory.keep("same", Piece(None, b"x" * 20))
    assert len(memory) == 2


# ── Questions, which are written in one go ───────────────────────────────────────────────────────

NUMBERS: list[Any] = [None, 0, 0.0, -0.0, 1, 1.0, 0.5, 2]
QUESTIONS = st.builds(
    Request,
    model=st.sampled_from(["m", 'a "model"']),
    messages=st.tuples(st.sampled_from(["", " ", "a", 'für "x"\n']), st.sampled_from([None, "", "s", "S\n"])).map(
        lambda said: tuple(
            Message(role=role, parts=(Text(text=text),))  # type: ignore[arg-type] # the roles are right
            for role, text in (("system", said[1]), ("user", said[0]))
            if text is not None
        )
    ),
    sampling=st.builds(
        Sampling,
        max_tokens=st.sampled_from([None, 1, 5000]),
        temperature=st.sampled_from(NUMBERS),
        top_p=st.sampled_from(NUMBERS),
        stop=st.sampled_from([(), ("a",), (" ", "a", "b")]),
    ),
    reasoning=st.sampled_from([Reasoning(), Reasoning(), Reasoning(effort="low"), Reasoning(mode="budget")]),
    stream=st.booleans(),
    protocol=st.sampled_from(["", "openai_chat", "anthropic"]),
    user=st.sampled_from([None, None, "u"]),
    output=st.sampled_from([None, None, OutputFormat()]),
)


@given(QUESTIONS, st.sampled_from([Dialect(), Dialect(cache="off", max_tokens=7), Dialect(stop_limit=1)]))
def test_a_question_is_written_like_any_other_request(request_: Request, dialect: Dialect) -> None:
    *system, asked = request_.messages
    in_two = replace(asked, parts=(*asked.parts, Text()))  # empty text says nothing, but is more than plain words
    other = replace(request_, messages=(*system, in_two))
    assert outcome(request_, dialect, Memory()) == outcome(other, dialect, Memory())


def test_what_is_told_again_is_not_written_again() -> None:
    said = [Message(role="user", parts=(Text(text="a"),)), Message(role="assistant", parts=(Text(text="b"),))] * 2
    messages_ = tuple(replace(message) for message in said[:3])
    memory = Memory()
    build_request(Request(model="m", messages=messages_), memory=memory)
    known = memory.find([*map(id, messages_)])
    assert all(known)
    build_request(Request(model="m", messages=(*messages_, said[1], said[0])), memory=memory)
    again = memory.find([*map(id, messages_)])
    assert all(piece is before for piece, before in zip(again, known, strict=True))


def test_a_question_is_not_remembered() -> None:
    memory = Memory()
    build_request(Request(model="m", messages=(Message(role="user", parts=(Text(text="a"),)),)), memory=memory)
    assert len(memory) == 0


def test_the_memory_is_bounded_and_what_was_not_used_goes_first() -> None:
    memory = Memory(max_bytes=100, max_pieces=8)
    for number in range(50):
        memory.keep(number, Piece(None, b"x" * 10))
        assert memory.get(0) is not None
        assert len(memory) <= 8
    assert memory.get(1) is None
    memory.keep("large", Piece(None, b"x" * 51))
    assert memory.get("large") is None
