"""Fragments of a request come from the conversation cache, and the bytes are the same as without it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tieline.model.content import Foreign, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.request import OutputFormat, Reasoning, Request, Sampling, ToolChoice, ToolSpec
from tieline.wire.anthropic import Dialect, build_request
from tieline.wire.shared.conversations import ConversationCache, conversation_cache

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


def outcome(request: Request, dialect: Dialect, cache: ConversationCache | None) -> Any:
    """What is built, or why nothing is."""
    try:
        built = build_request(request, dialect, cache)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be the same with a cache
        return type(error), str(error)
    return built.body, built.notes, built.tool_names.freeform


@given(CONVERSATIONS, st.lists(st.tuples(st.integers(1, 9), SETTINGS, DIALECTS), min_size=2, max_size=6))
def test_a_request_is_built_with_a_cache_as_without(
    conversation: list[Message], legs: list[tuple[int, dict[str, Any], Dialect]]
) -> None:
    cache, small = conversation_cache(), conversation_cache(4000)
    for length, settings_, dialect in legs:
        request = Request(model="m", messages=tuple(conversation[:length]), **settings_)
        expected = outcome(request, dialect, None)
        assert outcome(request, dialect, cache) == expected
        assert outcome(request, dialect, small) == expected


def test_a_conversation_that_grows_is_built_from_cached_turns() -> None:
    cache = conversation_cache()
    turns = [
        Message(role=role, parts=(Text(text=f"{role} {at}"),)) for at in range(9) for role in ("user", "assistant")
    ]
    grown = Request(model="m", messages=(*turns, Message(role="user", parts=(Text(text="next"),))))
    build_request(replace(grown, messages=tuple(turns[:-1])), cache=cache)
    hits, misses = cache.hits, cache.misses
    body = build_request(grown, cache=cache).body
    assert (cache.hits - hits, cache.misses - misses) == (len(turns) - 1, 2)
    assert body == build_request(grown).body
