"""Settings and fixtures that all tests share."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

Golden = Callable[[Path, bytes], None]

SYSTEM = (
    "tests/web/test_page_*.py",  # Chromium
    "tests/editor/test_workbench_*.py",  # Chromium, and VS Code's workbench from npm
    "tests/editor/test_types.py",  # TypeScript from npm
    "tests/app/doctor/test_agents.py",  # programs: each takes a second to start
    "tests/app/doctor/test_clients.py",
    "tests/catalogue/test_coding_agents.py",  # agents as programs: each takes a second to start
    "tests/backends/test_acp_bridge.py",
    "tests/backends/test_acp_faults.py",
    "tests/backends/test_acp_processes.py",
    "tests/backends/test_acp_questions.py",
    "tests/backends/test_acp_sessions.py",
    "tests/backends/test_acp_turns.py",
    "tests/backends/test_acp_workplaces.py",
    "tests/e2e/test_acp_*.py",
    "tests/e2e/test_agents_end.py",
    "tests/e2e/test_chat.py",
    "tests/e2e/test_service.py",  # one command after another
    "tests/e2e/test_other_systems.py",
    "tests/e2e/test_trust.py",
    "tests/e2e/test_tunnel.py",
    "tests/e2e/test_install.py",  # installs the wheel into a new environment
    "tests/e2e/test_chat_terminal.py",  # a program and a terminal for each test
    "tests/e2e/test_codex*.py",  # Codex as a program, if it is installed
    "tests/e2e/test_run_clients.py",  # clients as programs, if they are installed
    "tests/e2e/test_responsive.py",  # large bodies
    "tests/cluster/test_*.py",  # PostgreSQL and nginx
    "tests/e2e/test_usage_kill.py",  # gateways under load, and PostgreSQL
    "tests/app/test_keys_postgres.py",  # PostgreSQL
    "tests/app/database/test_postgres*.py",  # a PostgreSQL server
)
"""What takes too long for `make test` and is part of `make test-system`."""

FEW = 30
"""Random examples of a property in `make test`; there are a hundred times as many in `make test-long`."""

REPEATABLE = bool(os.environ.get("CI"))
"""Whether the same commit must give the same result: CI draws no new examples, every other run does."""

# A slow machine must not fail a property: no deadline. A failure prints the line that repeats it.
settings.register_profile("few", deadline=None, max_examples=FEW, print_blob=True, derandomize=REPEATABLE)
settings.register_profile("long", settings.get_profile("few"), max_examples=100 * FEW)
settings.load_profile("few")

# Each HTTP client of a test loads the certificates of the system, which takes 25 ms, even if it speaks plain HTTP. No
# test needs them: it finds a folder without certificates instead.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# A shell that starts us in the background has interrupts ignored, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.match(pattern) for pattern in SYSTEM):
            item.add_marker("system")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden files anew: the diff is the review")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare bytes with a golden file, or write it when asked to."""
    rewrite = bool(request.config.getoption("--rewrite"))

    def compare(path: Path, got: bytes) -> None:
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.{os.getpid()}")
            unfinished.write_bytes(got)
            unfinished.replace(path)
        assert path.is_file(), f"no golden file {path.name}: run pytest --rewrite and read the diff"
        assert got.decode() == path.read_bytes().decode()

    return compare
