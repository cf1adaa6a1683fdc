"""The tables of replicas. Migrations 20 to 29."""

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
)
