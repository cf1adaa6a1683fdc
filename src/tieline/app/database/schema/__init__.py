"""The tables, as lists of migrations. Each module has its own range of numbers."""

from tieline.app.database.migrations import Migration
from tieline.app.database.schema.cluster import CLUSTER
from tieline.app.database.schema.documents import DOCUMENTS
from tieline.app.database.schema.keys import KEYS
from tieline.app.database.schema.sharing import SHARING

ALL: tuple[Migration, ...] = (*DOCUMENTS, *KEYS, *CLUSTER, *SHARING)
"""The migrations of the gateway's database. The files of stored responses and agent sessions contain only DOCUMENTS."""
