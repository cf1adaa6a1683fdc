"""Tests of the memory of thinking."""

from tieline.core.history.thinking import ThinkingMemory
from tieline.model.content import NO_META, STATE, Message, Part, Text, Thinking, ToolCall

SIGNED = Thinking(text="Let me look.", signature="sig-1")
CALL = ToolCall(id="call_1", name="read", arguments="{}")


def assistant(*parts: Part) -> tuple[Message, ...]:
    return (Message(role="user", parts=(Text(text="hi"),)), Message(role="assistant", parts=parts))


def test_thinking_a_client_dropped_is_put_back_before_its_calls() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (SIGNED, CALL))
    assert thoughts.restore("here", assistant(CALL))[1].parts == (SIGNED, CALL)


def test_thinking_before_mere_words_is_found_by_the_words() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", assistant()[:1], (SIGNED, Text(text="It is four.")))
    assert thoughts.restore("here", assistant(Text(text="It is four.")))[1].parts[0] == SIGNED
    assert thoughts.restore("here", assistant(Text(text="It is five.")))[1].parts == (Text(text="It is five."),)


def test_the_same_words_in_answer_to_something_else_have_no_thinking() -> None:
    thoughts = ThinkingMemory()
    other = (Message(role="user", parts=(Text(text="another question"),)),)
    thoughts.remember("here", other, (SIGNED, Text(text="Done.")))
    assert thoughts.restore("here", assistant(Text(text="Done.")))[1].parts == (Text(text="Done."),)


def test_thinking_of_another_backend_is_not_put_back() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (SIGNED, CALL))
    assert thoughts.restore("there", assistant(CALL))[1].parts == (CALL,)


def test_a_signature_is_taken_off_when_the_session_moves_to_another_backend() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (SIGNED, CALL))
    history = assistant(SIGNED, CALL)
    assert thoughts.restore("there", history)[1].parts == (Thinking(text="Let me look."), CALL)
    assert thoughts.restore("here", history)[1] is history[1]


def test_a_signature_nobody_knows_is_left_alone() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (SIGNED, CALL))
    unknown = Thinking(text="Hm.", signature="from before the restart")
    assert thoughts.restore("here", assistant(unknown, CALL))[1].parts == (unknown, CALL)


def test_the_oldest_thinking_is_forgotten_first() -> None:
    thoughts = ThinkingMemory(max_entries=4)
    for number in range(4):
        thinking = Thinking(text=f"thought {number}", signature=f"sig-{number}")
        thoughts.remember("here", (), (thinking, ToolCall(id=f"call_{number}", name="read")))
    kept = [
        len(thoughts.restore("here", assistant(ToolCall(id=f"call_{number}", name="read")))[1].parts)
        for number in range(4)
    ]
    assert kept == [1, 1, 2, 2]


def test_the_memory_is_bounded_by_size_too() -> None:
    thoughts = ThinkingMemory(max_characters=100)
    thoughts.remember("here", (), (Thinking(text="x" * 80), ToolCall(id="call_a", name="read")))
    thoughts.remember("here", (), (Thinking(text="y" * 80), ToolCall(id="call_b", name="read")))
    assert len(thoughts.restore("here", assistant(ToolCall(id="call_a", name="read")))[1].parts) == 1
    assert len(thoughts.restore("here", assistant(ToolCall(id="call_b", name="read")))[1].parts) == 2


def test_what_is_made_of_the_same_message_is_the_same_object_again() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (SIGNED, CALL))
    dropped, signed = assistant(CALL), assistant(SIGNED, CALL)
    assert thoughts.restore("here", dropped)[1] is thoughts.restore("here", dropped)[1]
    assert thoughts.restore("there", signed)[1] is thoughts.restore("there", signed)[1]
    assert thoughts.restore("here", dropped)[1].parts == (SIGNED, CALL)


def test_what_is_made_of_a_message_follows_what_is_remembered() -> None:
    thoughts = ThinkingMemory()
    other = Thinking(text="Or rather so.", signature="another")
    history = assistant(CALL)
    for thinking in (SIGNED, other):
        thoughts.remember("here", (), (thinking, CALL))
        assert thoughts.restore("here", history)[1].parts == (thinking, CALL)


# ── Provider state ───────────────────────────────────────────────────────────────────────────────

STATEFUL = ToolCall(id="call_1", name="read", arguments="{}", meta={STATE: {"extra": '{"signature":"abc"}'}})
KEPT = {"details": '[{"data":"x"}]'}


def test_state_a_client_dropped_is_put_back_for_the_backend_that_issued_it() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (STATEFUL,), KEPT)
    for backend, parts, meta in (("here", (STATEFUL,), {STATE: KEPT}), ("there", (CALL,), NO_META)):
        restored = thoughts.restore(backend, assistant(CALL))[1]
        assert (restored.parts, restored.meta) == (parts, meta)


def test_state_that_a_client_kept_goes_to_no_other_backend() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("here", (), (STATEFUL,), KEPT)
    told = (assistant()[0], Message(role="assistant", parts=(STATEFUL,), meta={STATE: KEPT, "x": 1}))
    assert thoughts.restore("here", told) == told
    moved = thoughts.restore("there", told)[1]
    assert (moved.parts, moved.meta) == ((CALL,), {"x": 1})


def test_state_of_unknown_origin_stays_as_the_client_sent_it() -> None:
    thoughts = ThinkingMemory()
    thoughts.remember("there", (), (SIGNED, ToolCall(id="another", name="read")))
    told = (assistant()[0], Message(role="assistant", parts=(STATEFUL,), meta={STATE: KEPT}))
    assert thoughts.restore("here", told) == told


def test_state_of_an_answer_in_words_is_found_by_the_words() -> None:
    thoughts = ThinkingMemory()
    words = Text(text="It is four.")
    thoughts.remember("here", assistant()[:1], (words,), KEPT)
    assert thoughts.restore("here", assistant(words))[1].meta == {STATE: KEPT}


def test_state_counts_for_the_bound_of_the_memory() -> None:
    thoughts = ThinkingMemory(max_characters=100)
    for number in range(10):
        call = ToolCall(id=f"call_{number}", name="read", meta={STATE: {"extra": f'"{"x" * 60}"'}})
        thoughts.remember("here", (), (call,))
    assert thoughts.restore("here", assistant(CALL))[1].parts == (CALL,)
    assert len(thoughts._by_key) == 1
