"""Opens the gateway's database, and the stores of documents in it or in files of their own."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tieline.app.config import ConfigError, StoreSettings
from tieline.app.folders import state_folder
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyObject

if TYPE_CHECKING:
    from tieline.app.database.documents import DocumentStore, open_store
    from tieline.app.database.engine import Database
    from tieline.app.database.postgres import PostgresDatabase, PostgresLimits
    from tieline.app.database.row_queue import RowQueue
    from tieline.app.database.sqlite import SqliteDatabase
    from tieline.model.ports import Store
else:
    DocumentStore = LazyImport("tieline.app.database.documents", "DocumentStore")
    open_store = LazyImport("tieline.app.database.documents", "open_store")
    PostgresDatabase = LazyImport("tieline.app.database.postgres", "PostgresDatabase")
    PostgresLimits = LazyImport("tieline.app.database.postgres", "PostgresLimits")
    RowQueue = LazyImport("tieline.app.database.row_queue", "RowQueue")
    SqliteDatabase = LazyImport("tieline.app.database.sqlite", "SqliteDatabase")

FILE_NAME = "sessions.sqlite3"
DRIVER = "psycopg_pool"


class Storage:
    """The gateway's database: on the PostgreSQL server of `[store]` or, if none is configured, in a file.

    If there is no state folder for the file, the database is in memory. Raise ConfigError if the server's URL is
    missing or not valid. Nothing is opened or imported before it is used, except for the engine of a configured server.
    """

    def __init__(self, settings: StoreSettings, env: Mapping[str, str]) -> None:
        self.settings = settings
        self._folder = state_folder(env)
        self._waiting: list[Callable[[], object]] | None = []
        self._closing: list[Callable[[], Awaitable[None]]] = []
        url = store_url(settings, env)
        self.secrets = _secrets(url)
        """The URL if it contains a password, and the password. Records must not contain them."""
        self.is_shared = url is not None
        """Whether other replicas may use the same database."""
        self.database: LazyObject[Database]
        if url is None:
            path = None if self._folder is None else self._folder / FILE_NAME
            self.database = LazyObject["Database"](SqliteDatabase, path)
        else:
            self.database = LazyObject["Database"](_open_server, url, settings)
            self.database.now()

    def when_started(self, work: Callable[[], object]) -> None:
        """Call `work` when the event loop runs: now, or when `start` is called."""
        if self._waiting is None:
            work()
        else:
            self._waiting.append(work)

    def start(self) -> None:
        """Run the functions passed to `when_started`. Call this in the event loop."""
        waiting, self._waiting = self._waiting or [], None
        for work in waiting:
            work()

    def row_queue(self, statement: str, title: str, max_size: int) -> "RowQueue":
        """Return a queue of rows for the database, which is written after `start` and closed by `aclose`."""
        queue = RowQueue(self.database.now(), statement, title, max_size=max_size)
        self.when_started(queue.start)
        self.on_close(queue.aclose)
        return queue

    def on_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """Await `work()` before the database is closed."""
        self._closing.append(work)

    def store(self, *, announced: Collection[str] = ()) -> "DocumentStore":
        """Return a store of documents in the gateway's database. See `DocumentStore` for `announced`."""
        return DocumentStore(self.database.now(), announced=announced)

    def separate_store(self, folder: str | None) -> "Store":
        """Return a store with its own file, in the subfolder `folder` of the state folder.

        If `folder` is None, return a store in memory. Otherwise, if the database is shared, return a store in it, and
        if there is no state folder either, a store in memory.
        """
        if folder is not None and self.is_shared:
            return self.store()
        return open_store(None if folder is None or self._folder is None else self._folder / folder)

    @property
    def is_persistent(self) -> bool:
        """Whether documents survive a restart."""
        return self.is_shared or self._folder is not None

    @property
    def is_available(self) -> bool:
        """Whether the last operation on the database succeeded, if there was one."""
        return self.database.made is None or self.database.made.is_available

    async def aclose(self) -> None:
        """Close the database. Stores must not be used afterwards."""
        for work in self._closing:
            await work()
        if self.database.made is not None:
            await self.database.made.aclose()


def store_url(settings: StoreSettings, env: Mapping[str, str]) -> str | None:
    """Return the URL of the PostgreSQL server, or None if SQLite is used.

    Raise ConfigError if the variable that should contain the URL is not set.
    """
    if settings.url_env is None:
        return settings.url
    url = env.get(settings.url_env, "").strip()
    if not url:
        raise ConfigError(f"`store.url_env` is {settings.url_env}, but this variable is not set")
    return url


def _secrets(url: str | None) -> tuple[str, ...]:
    try:
        password = urlsplit(url or "").password
    except ValueError:  # the engine rejects such a URL
        return ()
    return (url, password, unquote(password)) if url and password else ()


def _open_server(url: str, settings: StoreSettings) -> "Database":
    if find_spec(DRIVER) is None:
        raise ConfigError("`store.url` needs the driver for PostgreSQL: run `pip install 'tieline[postgres]'`")
    limits = PostgresLimits(connections=settings.connections, statement=settings.timeout)
    try:
        return PostgresDatabase(url, limits=limits)
    except ValueError as error:
        raise ConfigError(f"`store.url`: {error}") from None
