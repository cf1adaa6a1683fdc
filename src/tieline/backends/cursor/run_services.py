"""The services and settings that all runs of a Cursor backend share."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tieline.backends.cursor.account import Account
from tieline.backends.cursor.conversations import CursorConversations
from tieline.backends.cursor.pipes import AttemptIds, Pipe, Transport
from tieline.backends.cursor.recovery import Recovery
from tieline.tasks import Tasks
from tieline.wire.cursor.models import CursorModel
from tieline.wire.cursor.opening.offered_tools import SchemaCache, new_schema_cache
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings
from tieline.wire.cursor.run.query_replies import QuerySettings


@dataclass(frozen=True, slots=True)
class RunServices:
    """The services and settings that all runs share: account, transports, id generators, data about this machine."""

    name: str
    account: Account
    open_pipe: Callable[[Transport, str, AttemptIds], Pipe]
    transport: Callable[[], Transport]
    changed_to: Callable[[Transport], None]
    """Called when a run has changed to another transport, so that the next run begins with that transport."""
    mint_call: Callable[[], str]
    mint_id: Callable[[], str]
    mint_leg: Callable[[], str]
    conversations: CursorConversations
    clock: Callable[[], float]
    tasks: Tasks
    settings: RunSettings
    machine_info: MachineInfo
    queries: QuerySettings
    model: Callable[[str], CursorModel | None]
    """Returns the model with the given name, or None if the name is unknown."""
    schemas: SchemaCache = field(default_factory=new_schema_cache)
    is_fixed: bool = False
    """Whether the user chose the transport. If so, it is never changed."""
    stall_after: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def recovery(self, transport: Transport) -> Recovery:
        """Return an object that decides on the retries within one leg. `transport` is the one that the leg uses."""
        return Recovery(transport, is_fixed=self.is_fixed, clock=self.clock)
