"""The stored responses: limits on what one request can load, and documents that are damaged."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from tests.each import each
from tests.frontends.responses_support import user
from tieline.app.database.documents import MemoryStore
from tieline.core.archive.archive import Archive
from tieline.frontends.responses import history
from tieline.frontends.responses.conversations import Conversations
from tieline.frontends.responses.history import NO_CONTEXT, Context, ResponseHistory
from tieline.model.errors import BadRequest, GatewayError
from tieline.tasks import Tasks
from tieline.wire.openai_responses.stored import StoredResponse

ANN = "ann"


class CountingStore(MemoryStore):
    """Counts how often each document is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def get(self, shelf: str, key: str) -> bytes | None:
        self.reads[f"{shelf}/{key.rpartition('/')[2]}"] += 1
        return await super().get(shelf, key)


class Stored:
    """The archives of the Responses API in memory."""

    def __init__(self, tasks: Tasks) -> None:
        self.store = CountingStore()
        self.responses, self.items, self.talks = (
            Archive(self._open, shelf, tasks, lambda: 1_000_000.0) for shelf in ("responses", "items", "conversations")
        )
        self.history = ResponseHistory(self.responses, self.items)
        self.conversations = Conversations(self.talks, lambda prefix: f"{prefix}_1", lambda: 1_000_000.0)

    async def _open(self) -> MemoryStore:
        return self.store

    async def aclose(self) -> None:
        """Wait until everything has been written to the store."""
        for archive in (self.responses, self.items, self.talks):
            await archive.aclose()

    async def read(self, response_id: str) -> StoredResponse:
        found = await self.history.get(ANN, response_id)
        assert found is not None
        return found

    def add(self, response_id: str, *items: Any, previous: str | None = None) -> None:
        """Store a response that answers these items with `Hello`."""
        output = [{"id": f"msg_{response_id.removeprefix('resp_')}_0", "role": "assistant", "content": "Hello"}]
        response = {"id": response_id, "status": "completed", "model": "demo", "output": output}
        document = StoredResponse(response=raw(response), input=[raw(item) for item in items], previous=previous)
        assert self.history.store(ANN, document)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.fixture
async def stored() -> AsyncIterator[Stored]:
    tasks = Tasks()
    yield Stored(tasks)
    await tasks.aclose()


@each(
    "damaged",
    [
        b"",
        b"\x00\x00",
        b'{"response":{"id":"resp_1"},"input":[{"ro',
        b'{"response":{"id":5,"output":[]},"input":[]}',
        b'{"response":{"id":"resp_1","output":5},"input":[]}',
        b'{"response":{"id":"resp_1","output":[5]},"input":[]}',
        b'{"response":{"id":"resp_1","output":[]},"input":["x"]}',
        b'{"response":{"id":"resp_1","output":[]},"input":[{"type":5}]}',
        b'{"response":{"id":"resp_1","output":[]},"input":[{"content":"\xff"}]}',
    ],
)
async def test_a_damaged_response_is_not_found_and_removed(
    stored: Stored, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stored.responses.put(ANN, "resp_1", damaged)
    assert await stored.history.get(ANN, "resp_1") is None
    assert "resp_1 is damaged" in caplog.text
    assert not stored.responses.touch(ANN, "resp_1")
    stored.responses.put(ANN, "resp_1", damaged)
    with pytest.raises(GatewayError) as raised:
        await stored.history.context(ANN, "resp_1")
    assert raised.value.code == "previous_response_not_found"


@each(
    "damaged",
    [b"", b'{"created":1,"items":[{"ro', b'{"created":1,"items":[5]}', b'{"created":1,"items":[{"content":"\xff"}]}'],
)
async def test_a_damaged_conversation_is_not_found_and_removed(
    stored: Stored, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stored.talks.put(ANN, "conv_1", damaged)
    with pytest.raises(GatewayError) as raised:
        await stored.conversations.get(ANN, "conv_1")
    assert raised.value.kind == "not_found"
    assert "conv_1 is damaged" in caplog.text
    assert not stored.talks.touch(ANN, "conv_1")


def reference(item_id: str) -> Raw:
    return raw({"type": "item_reference", "id": item_id})


async def test_each_response_is_read_once_however_many_of_its_items_are_referred_to(stored: Stored) -> None:
    stored.add("resp_1", *(user(str(number)) for number in range(50)))
    stored.add("resp_2", *({"id": f"mine-{number}", **user(str(number))} for number in range(50)))
    await stored.aclose()
    items = [
        raw(user("first")),
        *(reference(f"mine-{number}") for number in range(50)),
        *(reference(f"msg_1_i{number}") for number in range(50)),
        reference("msg_1_0"),
        raw(user("last")),
    ]
    resolved = await stored.history.resolved(ANN, items, NO_CONTEXT)
    assert list(resolved) == list(range(103))
    numbers = [str(number) for number in range(50)]
    found = [json.loads(bytes(item))["content"] for item in resolved.values()]
    # Items that the client sent without an id are stored with a list as content.
    found = [content if isinstance(content, str) else content[0]["text"] for content in found]
    assert found == ["first", *numbers, *numbers, "Hello", "last"]
    assert (stored.store.reads["responses/resp_1"], stored.store.reads["responses/resp_2"]) == (1, 1)


async def test_other_tasks_run_while_references_are_resolved(stored: Stored) -> None:
    stored.add("resp_1", user("one"))
    stored.add("resp_2", user("two"))
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "another task")
    await stored.history.resolved(ANN, [reference("msg_1_0"), reference("msg_2_0")], NO_CONTEXT)
    assert others == ["another task"]


async def test_references_are_bounded_in_number_and_size(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.add("resp_1", user("x" * 600), user("y" * 600))
    items = [reference("msg_1_i0"), reference("msg_1_i1")]
    monkeypatch.setattr(history, "MAX_CONTEXT", 1000)
    assert list(await stored.history.resolved(ANN, items[:1], NO_CONTEXT)) == [0]
    with pytest.raises(GatewayError) as raised:
        await stored.history.resolved(ANN, items, NO_CONTEXT)
    assert raised.value.kind == "too_large"
    with pytest.raises(BadRequest) as refused:
        await stored.history.resolved(ANN, [reference("msg_1_i0")] * 1001, NO_CONTEXT)
    expected = ("`input`: expected at most 1,000 item references, got 1,001", "input")
    assert (refused.value.message, refused.value.param) == expected


class LongChain(tuple[str, ...]):
    """The ids of a long chain. Searching through all of them for every item of a request would take seconds."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        raise AssertionError("this search takes too long")


async def test_items_of_a_long_chain_are_recognised_quickly(stored: Stored) -> None:
    chain = LongChain(f"resp_{number}" for number in range(20))
    items = [raw({"id": f"msg_{number}_0", **user("x")}) for number in range(10, 25)]
    assert list(await stored.history.resolved(ANN, items, Context(chain=chain))) == [10, 11, 12, 13, 14]


async def test_a_chain_that_is_too_large_is_not_read_to_its_beginning(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_CONTEXT", 2000)
    previous = None
    for number in range(5):
        stored.add(f"resp_{number}", user("x" * 800), previous=previous)
        previous = f"resp_{number}"
    await stored.aclose()
    with pytest.raises(GatewayError) as raised:
        await stored.history.context(ANN, "resp_4")
    assert raised.value.kind == "too_large"
    assert stored.store.reads == {"responses/resp_4": 1, "responses/resp_3": 1, "responses/resp_2": 1}
    latest = await stored.read("resp_4")
    stored.store.reads.clear()
    with pytest.raises(GatewayError) as raised:
        await stored.history.input_items(ANN, latest)
    assert raised.value.kind == "too_large"
    assert stored.store.reads == {"responses/resp_3": 1, "responses/resp_2": 1}
    assert len(await stored.history.input_items(ANN, await stored.read("resp_1"))) == 3
    assert len((await stored.history.context(ANN, "resp_1")).items) == 4


async def test_items_cannot_be_found_by_very_long_ids(stored: Stored) -> None:
    stored.add("resp_1", {"id": "x" * 128, **user("one")}, {"id": "y" * 129, **user("two")})
    assert list(await stored.history.resolved(ANN, [reference("x" * 128)], NO_CONTEXT)) == [0]
    with pytest.raises(GatewayError) as raised:
        await stored.history.resolved(ANN, [reference("y" * 129)], NO_CONTEXT)
    assert (raised.value.kind, raised.value.param) == ("not_found", "input[0].id")
