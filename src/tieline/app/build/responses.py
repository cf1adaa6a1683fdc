"""Builds the archives of the Responses API, which hold responses and conversations."""

import time
from typing import TYPE_CHECKING

from tieline.app.build.storage import Storage
from tieline.app.config import ResponsesSettings
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyObject
from tieline.core.archive.archive import DAY, MIB, Archive, ArchiveLimits
from tieline.frontends.responses.routes import ResponseArchives
from tieline.model.ports import DocumentArchive, Store
from tieline.tasks import Tasks

if TYPE_CHECKING:
    from tieline.app.database.shared_archive import SharedArchive
else:
    SharedArchive = LazyImport("tieline.app.database.shared_archive", "SharedArchive")

FOLDER = "responses"
MAX_ITEM_MIB = 32
"""Maximum size, in MiB, of the archive that maps the ids of items to responses."""
MAX_MEMORY_MIB = 32
"""Maximum size, in MiB, of each archive that is kept in memory instead of in a file."""


def build_archives(
    settings: ResponsesSettings, storage: Storage, tasks: Tasks
) -> tuple[ResponseArchives, LazyObject[Store]]:
    """Return the archives and their store. The store is created on first use, and the caller has to close it."""
    is_kept = storage.is_persistent and settings.store
    store = LazyObject[Store](storage.separate_store, FOLDER if is_kept else None)
    max_mib = settings.max_mib if is_kept else min(settings.max_mib, MAX_MEMORY_MIB)
    age, total = settings.keep_days * DAY, max_mib * MIB
    limits = ArchiveLimits(total=total, each=min(total, 32 * MIB), age=age)

    def archive(shelf: str, limits: ArchiveLimits) -> DocumentArchive:
        if is_kept and storage.is_shared:
            shared = SharedArchive(storage.database.now(), shelf, tasks, time.time, limits)
            storage.when_started(shared.start)
            return shared
        return Archive(store.get, shelf, tasks, time.time, limits)

    archives = ResponseArchives(
        archive("responses", limits),
        archive("items", limits._replace(total=MAX_ITEM_MIB * MIB)),
        archive("conversations", limits),
        is_storing=settings.store,
    )
    return archives, store
