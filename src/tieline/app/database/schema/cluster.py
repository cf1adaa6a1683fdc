"""The tables of replicas. Migrations 20 to 29."""

from tieline.app.database.migrations import Migration

CLUSTER: tuple[Migration, ...] = ()
