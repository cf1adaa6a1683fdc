"""Stores sessions across restarts of the gateway: enough to recognise a conversation, but none of its text.

There is one document for each session that the agent can reopen. It contains the agent's name, the agent's id for the
session, the workplace, the name of the client's key, the time of last use, and digests of the system messages and the
history. All documents are read once, before the first request. Documents for workplaces that are not configured are
ignored, because they may belong to other gateways, and removed only when they are old. Other documents are removed if
they are old or surplus.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from tieline.backends.acp.fingerprint import HistoryItem, RequestKind, SeenHistory, TextDigest
from tieline.backends.acp.sessions import AgentSession
from tieline.backends.acp.workplace import Workplace, Workplaces
from tieline.model.content import Value
from tieline.model.ports import Store
from tieline.tasks import Tasks

log = logging.getLogger("tieline.acp")

SHELF = "acp"
MAX_AGE = 30 * 24 * 3600.0
"""Seconds for which a document is kept after its session was last used."""
WRITE_DELAY = 0.5
"""Seconds to wait before changes are written, because further changes often follow."""
MAX_ITEMS = 10_000
"""Maximum number of items in the histories of a session. A session with more is not stored."""
MAX_HISTORIES = 4

StoredDigest = tuple[int, int, bytes]
"""A `TextDigest` without its `head`: the length, the checksum of the text's beginning, and the digest."""


class StoredHistory(Value):
    """A stored history of a session: digests of the user's parts, and of the agent's texts between them."""

    items: tuple[bytes | tuple[StoredDigest, ...], ...]
    torn: bool = False


class StoredAgentSession(Value):
    """The stored document for one session."""

    agent: str
    session: str
    folder: str
    used: float
    system: tuple[bytes, ...]
    """Digests of the beginnings of the system messages."""
    tools: bool
    histories: tuple[StoredHistory, ...] = msgspec.field(name="pasts")
    servers: tuple[str, ...] = ()
    """The names of the session's MCP servers."""
    workspace: str = ""
    owner: str = ""
    """The name of the client's key."""


_read = msgspec.json.Decoder(StoredAgentSession).decode
_write = msgspec.json.Encoder().encode


class SessionStorage(NamedTuple):
    """The store that holds the documents, and the clock that provides the time of last use.

    `shelf` differs between machines that share a store, because an agent can reopen a session only on the machine
    where it began.
    """

    store: Store
    clock: Callable[[], float]
    shelf: str = SHELF


class SessionStore:
    """Stores sessions. After a restart, loads up to `limit` of them, if their workplaces are still configured."""

    def __init__(self, storage: SessionStorage, places: Workplaces, tasks: Tasks, *, limit: int) -> None:
        self._store, self._clock, self._shelf = storage
        self._places = places
        self._tasks = tasks
        self._limit = limit
        self._keys: dict[AgentSession, str] = {}
        self._owners: dict[str, AgentSession] = {}
        self._waiting: dict[str, AgentSession | None] = {}
        """The sessions whose documents have to be written, by key. None means that the document has to be removed."""
        self._writing: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    async def load(self) -> list[AgentSession]:
        """Return the stored sessions, the most recently used last."""
        stored = self._parsed(await self._store.read(self._shelf))
        oldest = self._clock() - MAX_AGE
        order = sorted(stored, key=lambda key: stored[key].used)
        here = [key for key in order if self._places.has(_place(stored[key]), stored[key].agent)]
        surplus = here[: max(0, len(here) - self._limit)]
        gone = {*surplus, *(key for key in order if stored[key].used < oldest)}
        for key in gone:
            self._put(key, None)
        return [self._session(key, stored[key]) for key in here if key not in gone]

    def save(self, session: AgentSession) -> None:
        """Store a changed session in the background, if its agent can reopen it."""
        key, before = f"{session.spec_id}/{session.name}", self._keys.get(session)
        if before not in (None, key):
            self.forget(session)
        if not _can_reopen(session):
            return
        self._keys[session] = key
        self._owners[key] = session
        self._put(key, session)

    def forget(self, session: AgentSession) -> None:
        """Remove the document of a session."""
        key = self._keys.pop(session, None)
        # If the agent has reused the session id, the document now belongs to the other session.
        if key is not None and self._owners.get(key) is session:
            del self._owners[key]
            self._put(key, None)

    async def aclose(self) -> None:
        """Write all outstanding changes and close the store."""
        self._closed.set()
        while self._writing is not None:
            await asyncio.wait([self._writing])
        await self._store.aclose()

    def _parsed(self, documents: Mapping[str, bytes]) -> dict[str, StoredAgentSession]:
        stored: dict[str, StoredAgentSession] = {}
        for key, document in documents.items():
            try:
                stored[key] = _read(document)
            except (msgspec.DecodeError, RecursionError, TypeError, UnicodeDecodeError):
                self._put(key, None)
        if len(stored) < len(documents):
            number = len(documents) - len(stored)
            log.warning("removed %d stored agent sessions that could not be read", number)
        return stored

    def _session(self, key: str, stored: StoredAgentSession) -> AgentSession:
        kind = RequestKind(frozenset(stored.system), stored.tools, stored.owner)
        session = AgentSession(stored.agent, kind, _place(stored))
        session.name = stored.session
        session.histories = tuple(SeenHistory(tuple(map(_item, past.items)), past.torn) for past in stored.histories)
        self._keys[session] = key
        self._owners[key] = session
        return session

    # ── writing in the background ──

    def _put(self, key: str, session: AgentSession | None) -> None:
        if self._closed.is_set():
            return
        self._waiting[key] = session
        if self._writing is None:
            self._writing = self._tasks.start(self._write_all(), "storing agent sessions")

    async def _write_all(self) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), WRITE_DELAY)
            while self._waiting:
                key = next(iter(self._waiting))
                session = self._waiting.pop(key)
                document = _document(self._stored(session)) if session is not None else None
                if document is None:
                    await self._store.remove(self._shelf, key)
                else:
                    await self._store.write(self._shelf, key, document)
        finally:
            self._writing = None

    def _stored(self, session: AgentSession) -> StoredAgentSession:
        return StoredAgentSession(
            agent=session.spec_id,
            session=session.name,
            folder=session.process_key.workplace.folder,
            workspace=session.process_key.workplace.workspace,
            servers=session.process_key.workplace.servers,
            used=self._clock(),
            system=tuple(sorted(session.kind.system)),
            tools=session.kind.has_tools,
            owner=session.kind.owner,
            histories=tuple(
                StoredHistory(items=tuple(map(_stored_item, past.items)), torn=past.is_torn)
                for past in session.histories[:MAX_HISTORIES]
            ),
        )


def _place(stored: StoredAgentSession) -> Workplace:
    return Workplace(folder=stored.folder, servers=stored.servers, workspace=stored.workspace)


def _document(stored: StoredAgentSession) -> bytes | None:
    """Encode a session. Return None if its history is too long or its id cannot be encoded."""
    if sum(len(past.items) for past in stored.histories) > MAX_ITEMS:
        return None
    try:
        return _write(stored)
    except UnicodeEncodeError:
        return None


def _can_reopen(session: AgentSession) -> bool:
    """Return whether a session can be reopened: it has a history and a usable id, and its agent supports reopening."""
    abilities = session.agent.about.abilities if session.agent is not None else None
    is_able = abilities is not None and (abilities.load or abilities.resume)
    return is_able and bool(session.histories) and bool(session.name) and session.name.isprintable()


def _stored_item(item: HistoryItem) -> bytes | tuple[StoredDigest, ...]:
    if isinstance(item, bytes):
        return item
    return tuple((digest.length, digest.checksum, digest.digest) for digest in item)


def _item(stored: bytes | tuple[StoredDigest, ...]) -> HistoryItem:
    return stored if isinstance(stored, bytes) else tuple(TextDigest(*digest) for digest in stored)
