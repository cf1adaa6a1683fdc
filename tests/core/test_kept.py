"""What is kept of a leg has limits in every field, and no secrets."""

import msgspec

from tests.cases import leg
from tests.each import each
from tieline.core.watch.bus import Bus
from tieline.core.watch.record import MAX_MODEL, MAX_RECORD_SIZE, MAX_TITLE_SOURCE
from tieline.core.watch.secrets import Secrets, secret_values
from tieline.core.watch.truncate import MAX_NAME, Budget
from tieline.model.content import File, Message, Text, ToolCall, ToolResult
from tieline.model.events import Failed, Note
from tieline.model.request import OutputFormat, Request, Sampling, ToolSpec

HUGE = "x" * (4 << 20)
USER = Message(role="user", parts=(Text(text="hi"),))
REQUESTS = {
    "model": Request(model=HUGE, messages=(USER,)),
    "user": Request(model="m", messages=(USER,), user=HUGE, cache_key=HUGE, session=HUGE, mode=HUGE),
    "stops": Request(model="m", messages=(USER,), sampling=Sampling(stop=(HUGE,) * 9)),
    "schema": Request(model="m", messages=(USER,), output=OutputFormat(name=HUGE, schema=HUGE.encode())),
    "headers": Request(model="m", messages=(USER,), headers=(("a", HUGE),)),
    "extra": Request(model="m", messages=(USER,), extra={HUGE: msgspec.Raw(b"1")}),
    "tools": Request(model="m", messages=(USER,), tools=(ToolSpec(name=HUGE, description=HUGE, schema=b"{}"),) * 9),
    "calls": Request(
        model="m",
        messages=(
            Message(role="assistant", parts=(ToolCall(id=HUGE, name=HUGE, arguments="{}"),)),
            Message(role="user", parts=(ToolResult(call_id=HUGE, content=(Text(text=HUGE),)),)),
            Message(role="user", parts=(File(media_type=HUGE, data="", name=HUGE),)),
        ),
    ),
    "parts": Request(model="m", messages=(Message(role="user", parts=(Text(text="x"),) * 90_000),)),
    "messages": Request(model="m", messages=(Message(role="user", parts=()),) * 90_000),
}


def size(value: object) -> int:
    return len(msgspec.json.encode(value))


@each("name", REQUESTS)
def test_whatever_a_request_is_large_in_little_of_it_is_kept(name: str) -> None:
    bus = Bus(clock=lambda: 0.0, max_legs=500)
    record = bus.records.begin(REQUESTS[name], "chat", HUGE)
    bus.records.end(record, 1.0, 4 << 20, ())
    assert size(record.request) < 2 * MAX_RECORD_SIZE
    assert size(bus.legs()) < 4096
    assert len(bus.legs()[0].model) <= MAX_MODEL + 100


def test_notes_and_errors_are_cut() -> None:
    bus = Bus(clock=lambda: 0.0)
    record = bus.records.begin(REQUESTS["parts"], "chat", "")
    record.noted(Note(kind="repair", message=HUGE))
    assert len(record.notes[0].message) == MAX_TITLE_SOURCE
    failed = Budget(MAX_RECORD_SIZE).event(Failed(kind="upstream", message=HUGE))
    assert isinstance(failed, Failed)
    assert len(failed.message) < MAX_RECORD_SIZE
    assert MAX_NAME < MAX_TITLE_SOURCE


def test_a_key_in_a_user_agent_or_a_model_name_is_not_shown() -> None:
    bus = Bus(clock=lambda: 0.0, secrets=Secrets(["my-own-secret"]))
    bus.records.begin(
        Request(model="m my-own-secret", messages=(USER,)), "chat", "agent/1 my-own-secret sk-" + "a" * 30
    )
    [summary] = bus.legs()
    assert (summary.client, summary.model) == ("agent/1 *** ***", "m ***")


def test_secret_values_are_known_by_their_names_or_by_how_they_look() -> None:
    settings = {
        "x-team": "blue",
        "X-Api-Key": "first-secret",
        "authorization": "Bearer second-secret",
        "x-other": "ghp_" + "a" * 36,
        "anthropic-version": "2023-06-01",
    }
    found = secret_values(settings)
    assert {"first-secret", "second-secret", "ghp_" + "a" * 36} <= {*found}
    assert not {"blue", "2023-06-01"} & {*found}


def test_the_ring_has_an_upper_bound() -> None:
    bus = Bus(clock=lambda: 0.0, max_total_size=1 << 20)
    for _ in range(100):
        record = bus.records.begin(
            Request(model="m", messages=(Message(role="user", parts=(Text(text=HUGE),)),)), "chat", ""
        )
        record.add_received(leg((Text(), ["words"])), 0.0)
        bus.records.end(record, 1.0, 4 << 20, ())
    assert len(bus.legs()) < 50
