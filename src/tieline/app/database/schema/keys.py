"""The tables of keys and usage. Migrations 10 to 19."""

from tieline.app.database.migrations import Migration

KEYS: tuple[Migration, ...] = ()
