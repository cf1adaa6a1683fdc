"""The interface of a database.

Statements are written once, for both engines. They use `?` for parameters, and only SQL that SQLite and PostgreSQL
share. Parameters and results are None, int, float, str or bytes; a bool is stored as 0 or 1.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]
"""A statement and its parameters."""


class DatabaseFailed(Exception):
    """A database operation failed. The message contains no password."""


class DatabaseUnavailable(DatabaseFailed):
    """The database cannot be reached, or did not answer in time. The same operation may succeed later."""


class StatementFailed(DatabaseFailed):
    """The database rejected a statement or its parameters. Repeating it will not help."""


class Database(Protocol):
    """A database. Every operation is bounded in time, and raises DatabaseFailed if it fails.

    Cancelling a caller does not interrupt an operation that has begun.
    """

    @property
    def title(self) -> str:
        """Where the database is, for logs: a path or an address, without a password."""

    @property
    def is_shared(self) -> bool:
        """Whether other machines may use the database. This is true for PostgreSQL."""

    @property
    def is_available(self) -> bool:
        """Whether the last operation, or the last attempt to connect, succeeded. True before the first one."""

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, or of a statement with RETURNING."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement and return the number of affected rows."""

    async def run(self, statements: Sequence[Statement]) -> None:
        """Execute statements in one transaction: all of them or none."""

    async def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement once for each row of parameters, in one transaction."""

    async def notify(self, channel: str, payload: str = "") -> None:
        """Send a message to all listeners of a channel, including those of this process.

        On SQLite, this does nothing. A channel name has no spaces, and a payload has at most 7,000 bytes.
        """

    def listen(self, channel: str, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call `callback` with the payload of each message in a channel. Return a function that stops this.

        After each connect, and soon after this call if the database is already connected, `callback` is called with an
        empty payload: messages may have been missed, so the listener has to read the current state. On SQLite, the
        callback is never called. The event loop must be running.
        """

    async def versions(self) -> frozenset[int]:
        """Return the numbers of the migrations that have been applied."""

    async def aclose(self) -> None:
        """Finish the operations that have begun, and close the database. It can be used again afterwards."""
