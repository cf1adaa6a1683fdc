"""Builds the archives of the Responses API, which hold responses and conversations."""

import secrets
import time
from collections.abc import Mapping

from tieline.app.config import ResponsesSettings
from tieline.app.folders import state_folder
from tieline.app.store import DiskStore, MemoryStore
from tieline.core.archive.archive import DAY, MIB, Archive, ArchiveLimits
from tieline.frontends.responses.routes import ResponseArchives
from tieline.model.ports import Store
from tieline.tasks import Tasks

FOLDER = "responses"
MAX_ITEM_MIB = 32
"""Maximum size, in MiB, of the archive that maps the ids of items to responses."""
MAX_MEMORY_MIB = 32
"""Maximum size, in MiB, of each archive that is kept in memory instead of in a file."""


def build_archives(settings: ResponsesSettings, env: Mapping[str, str], tasks: Tasks) -> tuple[ResponseArchives, Store]:
    """Return the archives, and the store that contains them. The caller has to close the store."""
    folder = state_folder(env)
    store: Store = MemoryStore() if folder is None or not settings.store else DiskStore(folder / FOLDER)
    max_mib = min(settings.max_mib, MAX_MEMORY_MIB) if isinstance(store, MemoryStore) else settings.max_mib
    age, total = settings.keep_days * DAY, max_mib * MIB
    limits = ArchiveLimits(total=total, each=min(total, 32 * MIB), age=age)
    archives = ResponseArchives(
        Archive(store, "responses", tasks, time.time, limits),
        Archive(store, "items", tasks, time.time, limits._replace(total=MAX_ITEM_MIB * MIB)),
        Archive(store, "conversations", tasks, time.time, limits),
        is_storing=settings.store,
    )
    return archives, store


def new_object_id(prefix: str) -> str:
    """Return a random id such as `resp_…`."""
    return f"{prefix}_{secrets.token_hex(20)}"
