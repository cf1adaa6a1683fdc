"""The short cut for runs of like events: the same texts as without it, or none."""

import json

from tieline.wire.template import TRIAL, Template, frames

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
    assert learned().run([event("one"), tricky], 0) == ["one"]
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
    lines = b"".join(frames(texts, b'{"text":', b"}\n")).decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"text": text} for text in texts]


def test_a_run_in_a_text_ends_where_the_next_block_begins() -> None:
    run = b"".join(event(text) + b"\n\n" for text in ["one", "ä", "back\\slash", ""])
    rest = b'{"type": "stop"}\n\n' + event("three") + b"\n\n"
    template = learned()
    assert template.read(b"ping\n\n" + run, 6) == (["one", "ä", "back\\slash", ""], 6 + len(run))
    assert template.read(run + rest, 0) == (["one", "ä", "back\\slash", ""], len(run))
    assert template.read(rest, 0) == ([], 0)


def test_a_block_without_the_frame_is_no_text_though_it_ends_like_one() -> None:
    """What is cut at the end of the frame may be anything: it has to begin like the frame too."""
    text = event("one") + b"\n\n" + b'stray"' + AFTER.encode() + b"\n\n" + event("two") + b"\n\n"
    assert learned().read(text, 0) == (["one"], len(event("one")) + 2)


def test_one_block_alone_has_its_frame_and_its_blank_line() -> None:
    template = learned()
    assert template.only(event('a "quote" ä') + b"\n\n") == 'a "quote" ä'
    assert template.only(event("one") + b"\n") is None
    assert template.only(event("one") + b"\n\n" + event("two") + b"\n\n") is None
    assert template.only(raw(b'"a"\n') + b"\n\n") is None
    assert template.only(raw(b'"a\rb"') + b"\n\n") is None
    assert template.only(raw(b"null") + b"\n\n") is None


def test_a_frame_can_be_taken_up_for_another_part() -> None:
    frame = learned().frame
    assert frame is not None
    template = Template()
    template.take_up("other", frame)
    assert template.key == "other"
    assert template.only(event("one") + b"\n\n") == "one"
