"""The tables of replicas and of the shared archive. Migrations 20 to 29."""

from tieline.app.database.migrations import Migration

CLUSTER: tuple[Migration, ...] = (
    Migration(
        20,
        (
            """
            CREATE TABLE replica (
                tag {text} PRIMARY KEY,
                url {text} NOT NULL,
                beat {integer} NOT NULL,
                draining {integer} NOT NULL,
                agents {integer} NOT NULL
            )
            """,
        ),
        shared_only=True,
    ),
    Migration(
        21,
        (
            """
            CREATE TABLE archive (
                shelf {text} NOT NULL,
                owner {text} NOT NULL,
                id {text} NOT NULL,
                created {real} NOT NULL,
                used {real} NOT NULL,
                size {integer} NOT NULL,
                data {bytes} NOT NULL,
                PRIMARY KEY (shelf, owner, id)
            )
            """,
            "CREATE INDEX archive_used ON archive (shelf, owner, used)",
        ),
        shared_only=True,
    ),
)
