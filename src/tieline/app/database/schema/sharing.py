"""The tables through which replicas share the inbox, page sessions and the page's event stream. Migrations 30 to 39."""

from tieline.app.database.migrations import Migration

SHARING: tuple[Migration, ...] = (
    Migration(
        30,
        (
            # `data` is a core.inbox.inbox.PendingItem as JSON. Each change to the item gives it a new `revision`.
            """
            CREATE TABLE inbox_item (
                id {text} PRIMARY KEY,
                replica {text} NOT NULL,
                revision {integer} NOT NULL,
                since {real} NOT NULL,
                data {bytes} NOT NULL
            )
            """,
            # `scopes` is a JSON array with the scopes of the replica's watchers.
            "CREATE TABLE inbox_watcher (replica {text} PRIMARY KEY, scopes {text} NOT NULL)",
        ),
        shared_only=True,
    ),
    Migration(
        31,
        ("CREATE TABLE session_claim (session {text} PRIMARY KEY, replica {text} NOT NULL)",),
        shared_only=True,
    ),
    Migration(
        32,
        (
            # `data` is JSON. `owner` and `workspace` are NULL if all pages receive the message.
            """
            CREATE TABLE stream_message (
                number {number},
                owner {text},
                workspace {text},
                at {real} NOT NULL,
                data {bytes} NOT NULL
            )
            """,
        ),
        shared_only=True,
    ),
)
