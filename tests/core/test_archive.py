"""Documents that clients asked to keep: found again, private, bounded, and gone when they are too old."""

from collections.abc import AsyncIterator

import pytest

from tieline.app.store import MemoryStore
from tieline.core.archive.archive import Archive, ArchiveLimits
from tieline.tasks import Tasks, step_aside


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    made = Tasks()
    yield made
    await made.aclose()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def archive(store: MemoryStore, tasks: Tasks, clock: Clock) -> Archive:
    return Archive(store, "answers", tasks, clock, ArchiveLimits(total=100, each=60, age=3600.0))


async def test_a_document_can_be_read_at_once_and_replaced(archive: Archive) -> None:
    assert archive.put("ann", "resp_1", b"first")
    assert await archive.get("ann", "resp_1") == b"first"
    assert archive.put("ann", "resp_1", b"second")
    assert await archive.get("ann", "resp_1") == b"second"


async def test_another_owner_neither_sees_nor_removes_it(archive: Archive) -> None:
    archive.put("ann", "resp_1", b"private")
    assert await archive.get("bob", "resp_1") is None
    assert not await archive.remove("bob", "resp_1")
    assert await archive.get("ann", "resp_1") == b"private"


async def test_a_removed_document_is_gone(archive: Archive) -> None:
    archive.put("ann", "resp_1", b"x")
    assert await archive.remove("ann", "resp_1")
    assert not await archive.remove("ann", "resp_1")
    assert await archive.get("ann", "resp_1") is None


async def test_a_restart_finds_the_documents_with_their_age(store: MemoryStore, tasks: Tasks, clock: Clock) -> None:
    limits = ArchiveLimits(total=100, each=60, age=3600.0)
    before = Archive(store, "answers", tasks, clock, limits)
    before.put("ann", "resp_1", b"kept")
    assert await before.get("ann", "resp_1") == b"kept"
    while not await store.sizes("answers"):
        await step_aside()
    clock.now += 3599
    after = Archive(store, "answers", tasks, clock, limits)
    after.put("ann", "resp_2", b"new")
    assert await after.get("ann", "resp_1") == b"kept"
    assert await after.get("ann", "resp_2") == b"new"
    clock.now += 2
    assert await after.get("ann", "resp_1") is None
    assert await after.get("ann", "resp_2") == b"new"


async def test_expired_documents_leave_the_disk_too(archive: Archive, store: MemoryStore, clock: Clock) -> None:
    archive.put("ann", "resp_1", b"old")
    assert await archive.get("ann", "resp_1") == b"old"
    clock.now += 3601
    archive.put("ann", "resp_2", b"new")
    while len(sizes := await store.sizes("answers")) != 1 or not next(iter(sizes)).endswith("/resp_2"):
        await step_aside()
    assert not await archive.remove("ann", "resp_1")


async def test_a_full_archive_drops_what_was_not_used_for_longest(archive: Archive) -> None:
    archive.put("ann", "resp_1", b"1" * 40)
    archive.put("ann", "resp_2", b"2" * 40)
    assert await archive.get("ann", "resp_1") is not None
    archive.put("bob", "resp_3", b"3" * 40)
    assert await archive.get("ann", "resp_2") is None
    assert await archive.get("ann", "resp_1") == b"1" * 40
    assert await archive.get("bob", "resp_3") == b"3" * 40


async def test_a_document_that_is_too_large_drops_nothing(archive: Archive) -> None:
    archive.put("ann", "resp_1", b"1" * 50)
    assert not archive.put("ann", "resp_2", b"2" * 61)
    assert await archive.get("ann", "resp_1") == b"1" * 50
    assert await archive.get("ann", "resp_2") is None


async def test_ids_of_any_form_are_kept_apart(archive: Archive) -> None:
    archive.put("", "resp_1", b"no key")
    archive.put("a", "resp/1", b"slash")
    assert await archive.get("", "resp_1") == b"no key"
    assert await archive.get("a", "resp/1") == b"slash"
    assert await archive.get("a", "resp_1") is None
