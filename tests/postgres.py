"""Fixtures with a private PostgreSQL server.

Tests that need it are part of `make test-system`, and are skipped if it is not installed.
"""

from collections.abc import Iterator

import pytest

from tests.postgres_server import NoPostgres, PostgresServer, private_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests. A test that stops it has to start it again."""
    try:
        with private_server() as server:
            yield server
    except NoPostgres as error:
        pytest.skip(str(error))


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database of its own for each test."""
    return postgres_server.create()
