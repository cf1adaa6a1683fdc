"""Fixtures of the tests over real HTTP."""

from tests.e2e.support import gateway, shared_stand

__all__ = ["gateway", "shared_stand"]
