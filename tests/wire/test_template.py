"""The short cut for runs of like events: the same texts as without it, or none."""

import json

from tieline.wire.template import TRIAL, Template, framed

BEFORE = '{"type": "delta", "text": '
AFTER = ', "index": 0}'


def event(text: str) -> bytes:
    return raw(json.dumps(text, ensure_ascii=False).encode())


def raw(spelled: bytes) -> bytes:
    return BEFORE.encode() + spelled + AFTER.encode()


def learned(text: str = "hello") -> Template:
    template = Template()

    def means_same(data: bytes) -> bool:
        return bool(json.loads(data) == {"type": "delta", "text": TRIAL, "index": 0})

    template.learn("part", event(text), "text", text, means_same)
    return template


def test_a_run_of_like_events_is_read_at_once() -> None:
    texts = ["one", "", 'a "quote"', "back\\slash", "two\nlines", "ä 😀", "]", '","']
    assert learned().run([event(text) for text in texts], 0) == texts


def test_a_run_ends_at_the_first_event_of_another_frame() -> None:
    events = [event("one"), event("two"), b'{"type": "stop"}', event("three")]
    assert learned().run(events, 0) == ["one", "two"]
    assert learned().run(events, 2) == []
    assert learned().run(events, 3) == ["three"]


def test_an_event_with_more_to_say_ends_the_run_however_it_looks() -> None:
    tricky = raw(b'"a", "finish": "b"')
    assert learned().run([event("one"), tricky], 0) == []
    assert learned().run([event("one"), tricky], 1) == []


def test_an_unfinished_string_is_never_joined_with_the_next() -> None:
    cut = raw(b'"a\\"')
    assert learned().run([cut, event("b")], 0) == []
    assert learned().run([event("x"), cut, event("b")], 0) == ["x"]


def test_bytes_too_short_for_the_frame_do_not_fit_it() -> None:
    assert learned().run([raw(b'"')], 0) == []


def test_a_frame_that_does_not_mean_the_same_is_not_taken_up() -> None:
    template = Template()
    template.learn("part", event("hello"), "text", "hello", lambda data: False)
    assert template.key is None


def test_a_text_that_occurs_elsewhere_does_not_mislead() -> None:
    """The first place with this text may be another field: the trial shows it."""
    data = b'{"text": "hello", "other": {"text": "hello"}}'
    template = Template()
    template.learn(
        "part",
        data,
        "text",
        "hello",
        lambda data: bool(json.loads(data) == {"text": "hello", "other": {"text": TRIAL}}),
    )
    assert template.key is None


def test_a_forgotten_frame_can_be_learned_again() -> None:
    template = learned()
    template.forget("another")
    assert template.key == "part"
    template.forget("part")
    assert template.key is None


def test_a_frame_that_comes_again_after_something_else_is_another_run() -> None:
    events = [event("one"), b'event: ping\ndata: {"type": "ping"}', event("two")]
    assert learned().run(events, 0) == ["one"]


def test_texts_are_written_each_in_its_frame() -> None:
    texts = ["one", 'a "quote"', "back\\slash\\", '","', 'ends with ",', "ä 😀", "two\nlines", '\\","']
    lines = framed(texts, b'{"text":', b"}\n").decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"text": text} for text in texts]
