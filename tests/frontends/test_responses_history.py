"""The stored responses: limits on what one request can load, and documents that are damaged."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Raw

from tests.each import each
from tieline.app.store import MemoryStore
from tieline.core.archive.archive import Archive
from tieline.frontends.responses.conversations import Conversations
from tieline.frontends.responses.history import ResponseHistory
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks
from tieline.wire.openai_responses.stored import StoredResponse

ANN = "ann"


class Stored:
    """The archives of the Responses API in memory."""

    def __init__(self, tasks: Tasks) -> None:
        self.store = MemoryStore()
        self.responses, self.items, self.talks = (
            Archive(self._open, shelf, tasks, lambda: 1_000_000.0) for shelf in ("responses", "items", "conversations")
        )
        self.history = ResponseHistory(self.responses, self.items)
        self.conversations = Conversations(self.talks, lambda prefix: f"{prefix}_1", lambda: 1_000_000.0)

    async def _open(self) -> MemoryStore:
        return self.store

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
