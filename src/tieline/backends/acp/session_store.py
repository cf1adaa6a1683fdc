"""What survives the gateway of its sessions: enough to know a conversation again, and nothing of what was said in it.

A document for each session that its agent could take up again: the agent, the agent's name for the session, the folder,
when it was used, and digests of what it has seen. They are read once, before the first request is looked at; those of
other folders stay where they are, for the gateways there. What is too old or too much is forgotten.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from tieline.backends.acp.fingerprint import Item, Kind, Past, Piece
from tieline.backends.acp.sessions import Session
from tieline.backends.acp.workplace import Workplace, Workplaces
from tieline.model.content import Value
from tieline.model.ports import Store
from tieline.tasks import Tasks

log = logging.getLogger("tieline.acp")

SHELF = "acp"
KEPT_FOR = 30 * 24 * 3600.0
"""Seconds that a session is remembered after it was used last."""
PAUSE = 0.5
"""Seconds until what has changed is written: when a turn ends there is enough else to do, and often another begins."""
MOST_ITEMS = 10_000
"""A conversation of more than that is not remembered."""
MOST_PASTS = 4

KeptPiece = tuple[int, int, bytes]
"""Length, checksum of the beginning, digest."""


class KeptPast(Value):
    """What a session has seen: digests of what the user said, and lists of what the agent said in between."""

    items: tuple[bytes | tuple[KeptPiece, ...], ...]
    torn: bool = False


class KeptSession(Value):
    """One session."""

    agent: str
    session: str
    folder: str
    used: float
    system: tuple[bytes, ...]
    """Digests of how the system messages begin."""
    tools: bool
    pasts: tuple[KeptPast, ...]
    servers: tuple[str, ...] = ()
    """The MCP servers that it was opened with, by name."""


_read = msgspec.json.Decoder(KeptSession).decode
_write = msgspec.json.Encoder().encode


class Keeping(NamedTuple):
    """Where sessions are kept, and the clock of the wall."""

    store: Store
    clock: Callable[[], float]


class Memory:
    """At most so many sessions in a store; only those at workplaces that are configured are recalled."""

    def __init__(self, keeping: Keeping, places: Workplaces, tasks: Tasks, *, most: int) -> None:
        self._store, self._clock = keeping
        self._places = places
        self._tasks = tasks
        self._most = most
        self._keys: dict[Session, str] = {}
        self._owners: dict[str, Session] = {}
        self._waiting: dict[str, Session | None] = {}
        """What is to be written, or removed."""
        self._writing: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    async def recall(self) -> list[Session]:
        """The sessions of before, the one used last at the end."""
        kept = self._understood(await self._store.read(SHELF))
        oldest = self._clock() - KEPT_FOR
        order = sorted(kept, key=lambda key: kept[key].used)
        gone = {key for place, key in enumerate(order) if place < len(order) - self._most or kept[key].used < oldest}
        for key in gone:
            self._put(key, None)
        here = [key for key in order if key not in gone and self._places.has(_place(kept[key]), kept[key].agent)]
        return [self._recalled(key, kept[key]) for key in here]

    def keep(self, session: Session) -> None:
        """A session has seen more."""
        key, before = f"{session.spec_id}/{session.name}", self._keys.get(session)
        if before not in (None, key):
            self.forget(session)
        if not _can_return(session):
            return
        self._keys[session] = key
        self._owners[key] = session
        self._put(key, session)

    def forget(self, session: Session) -> None:
        """Nobody comes back to a session."""
        key = self._keys.pop(session, None)
        # An agent may give a name again: then it is the other session that is meant by it.
        if key is not None and self._owners.get(key) is session:
            del self._owners[key]
            self._put(key, None)

    async def aclose(self) -> None:
        """Wait until everything is written."""
        self._closed.set()
        while self._writing is not None:
            await asyncio.wait([self._writing])
        await self._store.aclose()

    def _understood(self, documents: Mapping[str, bytes]) -> dict[str, KeptSession]:
        kept: dict[str, KeptSession] = {}
        for key, document in documents.items():
            try:
                kept[key] = _read(document)
            except (msgspec.DecodeError, RecursionError, TypeError, UnicodeDecodeError):
                self._put(key, None)
        if len(kept) < len(documents):
            number = len(documents) - len(kept)
            log.warning("what was remembered of %d sessions of agents cannot be read, and is forgotten", number)
        return kept

    def _recalled(self, key: str, kept: KeptSession) -> Session:
        session = Session(kept.agent, Kind(frozenset(kept.system), kept.tools), _place(kept))
        session.name = kept.session
        session.pasts = tuple(Past(tuple(map(_item, past.items)), past.torn) for past in kept.pasts)
        self._keys[session] = key
        self._owners[key] = session
        return session

    # ── writing, beside everything else ──

    def _put(self, key: str, session: Session | None) -> None:
        if self._closed.is_set():
            return
        self._waiting[key] = session
        if self._writing is None:
            self._writing = self._tasks.start(self._write_all(), "remembering sessions")

    async def _write_all(self) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), PAUSE)
            while self._waiting:
                key = next(iter(self._waiting))
                session = self._waiting.pop(key)
                document = _document(self._kept(session)) if session is not None else None
                if document is None:
                    await self._store.remove(SHELF, key)
                else:
                    await self._store.write(SHELF, key, document)
        finally:
            self._writing = None

    def _kept(self, session: Session) -> KeptSession:
        return KeptSession(
            agent=session.spec_id,
            session=session.name,
            folder=session.lane.workplace.folder,
            servers=session.lane.workplace.servers,
            used=self._clock(),
            system=tuple(sorted(session.kind.system)),
            tools=session.kind.has_tools,
            pasts=tuple(
                KeptPast(items=tuple(map(_kept_item, past.items)), torn=past.is_torn)
                for past in session.pasts[:MOST_PASTS]
            ),
        )


def _place(kept: KeptSession) -> Workplace:
    return Workplace(folder=kept.folder, servers=kept.servers)


def _document(kept: KeptSession) -> bytes | None:
    """What is written of a session; nothing of one that has seen too much, or has a name that cannot be written."""
    if sum(len(past.items) for past in kept.pasts) > MOST_ITEMS:
        return None
    try:
        return _write(kept)
    except UnicodeEncodeError:
        return None


def _can_return(session: Session) -> bool:
    """Whether its agent could take it up again."""
    abilities = session.agent.about.abilities if session.agent is not None else None
    is_able = abilities is not None and (abilities.load or abilities.resume)
    return is_able and bool(session.pasts) and bool(session.name) and session.name.isprintable()


def _kept_item(item: Item) -> bytes | tuple[KeptPiece, ...]:
    if isinstance(item, bytes):
        return item
    return tuple((piece.length, piece.mark, piece.digest) for piece in item)


def _item(kept: bytes | tuple[KeptPiece, ...]) -> Item:
    return kept if isinstance(kept, bytes) else tuple(Piece(*piece) for piece in kept)
