"""Runs every test of the pipes under both event loops, since they differ in what they do at the edges."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

try:
    from uvloop import new_event_loop as new_uvloop
except ImportError:  # not available on Windows
    LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
else:
    LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": new_uvloop}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return LOOPS
