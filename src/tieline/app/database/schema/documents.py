"""The table of documents. Migrations 1 to 9."""

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
)
