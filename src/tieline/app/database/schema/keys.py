"""The tables of keys and usage. Migrations 10 to 19."""

from tieline.app.database.migrations import Migration

KEYS: tuple[Migration, ...] = (
    Migration(
        10,
        (
            # Each change increases the version of a row, so the count and the sum of all versions reveal any change.
            """
            CREATE TABLE api_key (
                id {text} PRIMARY KEY,
                name {text} NOT NULL UNIQUE,
                digest {text} NOT NULL UNIQUE,
                previous_digest {text},
                previous_until {real},
                rules {text} NOT NULL,
                created {real} NOT NULL,
                revoked {real},
                last_used {real},
                version {integer} NOT NULL
            )
            """,
        ),
    ),
    Migration(
        11,
        (
            # The spool segments that have been added to the sums, so that none is added twice.
            """
            CREATE TABLE usage_batch (
                id {text} PRIMARY KEY,
                at {integer} NOT NULL
            )
            """,
            """
            CREATE TABLE usage (
                owner {text} NOT NULL,
                day {text} NOT NULL,
                backend {text} NOT NULL,
                model {text} NOT NULL,
                client {text} NOT NULL,
                requests {integer} NOT NULL,
                failed {integer} NOT NULL,
                cancelled {integer} NOT NULL,
                input {integer} NOT NULL,
                output {integer} NOT NULL,
                cache_read {integer} NOT NULL,
                cache_write {integer} NOT NULL,
                reasoning {integer} NOT NULL,
                cost {integer} NOT NULL,
                unpriced {integer} NOT NULL,
                estimated {integer} NOT NULL,
                PRIMARY KEY (owner, day, backend, model, client)
            )
            """,
            "CREATE INDEX usage_of_day ON usage (day)",
            # The sums that limits need, in a table that is small enough to be read every few seconds.
            """
            CREATE TABLE usage_total (
                owner {text} NOT NULL,
                day {text} NOT NULL,
                requests {integer} NOT NULL,
                tokens {integer} NOT NULL,
                cost {integer} NOT NULL,
                PRIMARY KEY (owner, day)
            )
            """,
        ),
    ),
)
