"""Documents that clients asked to keep: found again, private, bounded, and gone when they are too old."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tieline.app.database.documents import MemoryStore
from tieline.core.archive.archive import SWEEP_INTERVAL, Archive, ArchiveLimits
from tieline.tasks import Tasks


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def opening(store: MemoryStore) -> Callable[[], Awaitable[MemoryStore]]:
    async def open_store() -> MemoryStore:
        return store

    return open_store


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
    return Archive(opening(store), "answers", tasks, clock, ArchiveLimits(total=160, each=60, age=3600.0))


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
    limits = ArchiveLimits(total=160, each=60, age=3600.0)
    before = Archive(opening(store), "answers", tasks, clock, limits)
    before.put("ann", "resp_1", b"kept")
    assert await before.get("ann", "resp_1") == b"kept"
    await before.aclose()
    clock.now += 3599
    after = Archive(opening(store), "answers", tasks, clock, limits)
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
    await archive.aclose()
    assert [name.rpartition("/")[2] for name in await store.sizes("answers")] == ["resp_2"]
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


async def test_documents_are_bounded_in_number(store: MemoryStore, tasks: Tasks, clock: Clock) -> None:
    archive = Archive(opening(store), "answers", tasks, clock, ArchiveLimits(documents=2))
    for name in ("resp_1", "resp_2", "resp_3"):
        archive.put("ann", name, b"x")
    assert [await archive.get("ann", name) for name in ("resp_1", "resp_2", "resp_3")] == [None, b"x", b"x"]


async def test_an_owner_who_stores_a_lot_does_not_displace_the_documents_of_others(archive: Archive) -> None:
    archive.put("ann", "resp_1", b"1" * 10)
    for name in ("resp_2", "resp_3", "resp_4", "resp_5"):
        assert archive.put("bob", name, b"x" * 40)
    assert await archive.get("ann", "resp_1") == b"1" * 10
    found = [archive.touch("bob", name) for name in ("resp_2", "resp_3", "resp_4", "resp_5")]
    assert found == [False, False, True, True]


async def test_one_of_many_documents_is_dropped_for_another_owner(
    store: MemoryStore, tasks: Tasks, clock: Clock
) -> None:
    archive = Archive(opening(store), "answers", tasks, clock, ArchiveLimits(documents=3))
    archive.put("ann", "resp_1", b"1" * 1000)
    for name in ("resp_2", "resp_3", "resp_4"):
        archive.put("bob", name, b"x")
    assert archive.touch("ann", "resp_1")
    assert [archive.touch("bob", name) for name in ("resp_2", "resp_3", "resp_4")] == [False, True, True]


async def test_a_document_that_would_take_the_space_of_others_is_refused(
    store: MemoryStore, tasks: Tasks, clock: Clock
) -> None:
    archive = Archive(opening(store), "answers", tasks, clock, ArchiveLimits(total=400))
    archive.put("ann", "resp_1", b"1" * 100)
    archive.put("bob", "resp_2", b"2" * 100)
    assert not archive.put("bob", "resp_2", b"3" * 300)
    assert await archive.get("ann", "resp_1") == b"1" * 100
    assert await archive.get("bob", "resp_2") == b"2" * 100, "the earlier document"
    assert archive.put("bob", "resp_2", b"3" * 200)
    assert await archive.get("bob", "resp_2") == b"3" * 200


async def test_the_names_of_documents_count_too(store: MemoryStore, tasks: Tasks, clock: Clock) -> None:
    limits = ArchiveLimits(total=1000)
    archive = Archive(opening(store), "answers", tasks, clock, limits)
    for letter in "abc":
        assert archive.put("ann", letter * 400, b"x")
    assert [archive.touch("ann", letter * 400) for letter in "abc"] == [False, True, True]
    assert not archive.put("ann", "d" * 1000, b"x")
    await archive.aclose()
    again = Archive(opening(store), "answers", tasks, clock, limits)
    assert await again.get("ann", "b" * 400) == b"x"
    assert again.put("ann", "e" * 400, b"x")
    assert [again.touch("ann", letter * 400) for letter in "bce"] == [True, False, True]


async def test_a_document_that_is_touched_counts_as_used(archive: Archive, clock: Clock) -> None:
    archive.put("ann", "resp_1", b"1" * 40)
    archive.put("ann", "resp_2", b"2" * 40)
    assert archive.touch("ann", "resp_1")
    assert not archive.touch("bob", "resp_1")
    archive.put("ann", "resp_3", b"3" * 40)
    assert (archive.touch("ann", "resp_1"), archive.touch("ann", "resp_2")) == (True, False)
    clock.now += 3601
    assert not archive.touch("ann", "resp_1")


async def test_closing_writes_what_the_tasks_no_longer_could(store: MemoryStore, clock: Clock) -> None:
    tasks = Tasks()
    archive = Archive(opening(store), "answers", tasks, clock)
    archive.put("ann", "resp_1", b"removed")
    await archive.aclose()
    archive.put("ann", "resp_2", b"kept")
    assert await archive.remove("ann", "resp_1")
    await tasks.aclose()  # as when the gateway stops: the task has not begun yet
    await archive.aclose()
    assert list((await store.read("answers")).values()) == [b"kept"]


async def test_the_last_of_several_changes_is_written(archive: Archive, store: MemoryStore) -> None:
    for data in (b"one", b"two", b"three"):
        archive.put("ann", "resp_1", data)
    archive.put("ann", "resp_2", b"x")
    await archive.remove("ann", "resp_2")
    await archive.aclose()
    assert list((await store.read("answers")).values()) == [b"three"]


async def test_names_that_are_not_ours_are_removed_from_the_store(
    store: MemoryStore, tasks: Tasks, clock: Clock
) -> None:
    for name in ("odd", "ann/not-a-time/resp_1", f"ann/{clock.now - 2:.3f}/resp_2", f"ann/{clock.now - 1:.3f}/resp_2"):
        await store.write("answers", name, name.encode())
    archive = Archive(opening(store), "answers", tasks, clock)
    assert await archive.get("ann", "resp_2") == b"ann/999999.000/resp_2", "the newer of two"
    await archive.aclose()
    assert list(await store.sizes("answers")) == ["ann/999999.000/resp_2"]


# ── Replicas ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def replicas(store: MemoryStore, tasks: Tasks, clock: Clock) -> tuple[Archive, Archive]:
    one, two = (Archive(opening(store), "shelf", tasks, clock, is_shared=True) for _ in range(2))
    return one, two


async def test_a_replica_finds_what_another_one_stored_replaced_and_removed(
    replicas: tuple[Archive, Archive], clock: Clock
) -> None:
    one, two = replicas
    assert await two.get("owner", "a") is None
    assert one.put("owner", "a", b"1")
    await one.aclose()
    assert await two.get("owner", "a") == b"1"
    assert await two.get("other", "a") is None
    clock.now += 1
    assert two.put("owner", "a", b"2")
    await two.aclose()
    assert await one.get("owner", "a") == b"2"
    assert await two.remove("owner", "a")
    await two.aclose()
    assert await one.get("owner", "a") is None
    assert not await one.remove("owner", "a")


async def test_a_replica_removes_what_another_one_stored(replicas: tuple[Archive, Archive], store: MemoryStore) -> None:
    one, two = replicas
    assert await two.get("owner", "b") is None
    assert one.put("owner", "a", b"1")
    await one.aclose()
    assert await two.remove("owner", "a")
    await two.aclose()
    assert await store.read("shelf") == {}


async def test_replicas_meet_the_limits_together(store: MemoryStore, tasks: Tasks, clock: Clock) -> None:
    limits = ArchiveLimits(documents=3)
    one, two = (Archive(opening(store), "shelf", tasks, clock, limits, is_shared=True) for _ in range(2))
    for archive, name in ((one, "a"), (two, "b")):
        assert await archive.get("owner", "none") is None
        for number in range(3):
            assert archive.put("owner", f"{name}{number}", b"x")
        await archive.aclose()
    clock.now += SWEEP_INTERVAL
    assert await one.get("owner", "none") is None
    await one.aclose()
    assert len(await store.read("shelf")) == 3
