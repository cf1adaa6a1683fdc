"""The tables of documents, the audit log and retained traffic. Migrations 1 to 9."""

from tieline.app.database.migrations import Migration

DOCUMENTS: tuple[Migration, ...] = (
    # Files that were written before there were migrations contain this table already.
    Migration(
        1,
        (
            """
            CREATE TABLE IF NOT EXISTS document (
                number {number},
                shelf {text} NOT NULL,
                key {text} NOT NULL,
                data {bytes} NOT NULL,
                UNIQUE (shelf, key)
            )
            """,
        ),
    ),
    Migration(
        2,
        (
            """
            CREATE TABLE audit (
                id {text} PRIMARY KEY,
                at {real} NOT NULL,
                replica {text} NOT NULL,
                record {text} NOT NULL
            )
            """,
            "CREATE INDEX audit_at ON audit (at)",
        ),
        shared_only=True,
    ),
    Migration(
        3,
        (
            """
            CREATE TABLE leg (
                number {number},
                id {text} NOT NULL UNIQUE,
                at {real} NOT NULL,
                owner {text} NOT NULL,
                workspace {text} NOT NULL,
                words {text} NOT NULL,
                size {integer} NOT NULL,
                summary {bytes} NOT NULL,
                detail {bytes} NOT NULL
            )
            """,
            "CREATE INDEX leg_at ON leg (at)",
        ),
        shared_only=True,
    ),
)
