"""Logins for the tests of Cursor's account: tokens, a clock, and the service that gives them out."""

import asyncio
import base64
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from tieline.sim.model import Answer

NOW = 1_800_000_000.0
DAY = 86400.0
WAIT = 60.0
"""No test waits longer than this, in seconds, for anything."""

T = TypeVar("T")


async def soon(awaited: Awaitable[T]) -> T:
    """What comes of it, in bounded time."""
    async with asyncio.timeout(WAIT):
        return await awaited


def jwt(name: str = "one", *, expires: float | None = NOW + 60 * DAY, **claims: object) -> str:
    """An access token as the service makes them; the name makes it unlike others."""
    said = {"sub": f"auth0|user_{name}", "type": "session", **claims}
    if expires is not None:
        said["exp"] = int(expires)
    return ".".join(_base64url(piece) for piece in (b'{"alg":"HS256"}', msgspec.json.encode(said), name.encode()))


def given(access: str, refresh: str | None = None, **more: Any) -> Answer:
    """The service's answer that gives tokens."""
    said = {"accessToken": access, **({} if refresh is None else {"refreshToken": refresh}), **more}
    return Answer(body=msgspec.json.encode(said))


def refused(status: int = 401) -> Answer:
    return Answer(status=status, body=b'{"error":"bad token"}')


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
