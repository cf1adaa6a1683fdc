"""What is served at a path, also for clients whose base address has a `/v1` too many or too few."""

import logging
from collections.abc import Mapping
from typing import Generic, TypeVar

from tieline.model.errors import GatewayError

log = logging.getLogger("tieline")

VERSION = "/v1"
MOST_LOGGED = 100
LONGEST_LOGGED = 200

R = TypeVar("R")


class Paths(Generic[R]):
    """A table of routes: path → method → route. A path that ends with `/*` takes everything below it."""

    def __init__(self, routes: Mapping[str, Mapping[str, R]]) -> None:
        self._routes = routes
        self._logged: set[str] = set()

    def methods(self, path: str) -> Mapping[str, R] | None:
        """The methods of a path; None if nothing is served there."""
        exact = self._routes.get(path)
        if exact is not None:
            return exact
        path = path.rstrip("/").replace("//", "/")
        while path.startswith(VERSION * 2 + "/"):
            path = path[len(VERSION) :]
        for spelling in (path, VERSION + path):
            found = self._routes.get(spelling) or self._routes.get(_parent(spelling))
            if found is not None:
                return found
        return None

    def missing(self, method: str, path: str) -> GatewayError:
        """The error for a path at which nothing is served; each such path is logged once."""
        shown = ascii(path[:LONGEST_LOGGED])[1:-1]
        if shown not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(shown)
            log.warning("%s %s: nothing is served there; is the client's base address right?", method, shown)
        hint = ""
        if path.startswith("/v1/responses"):
            hint = " The Responses API is not served yet: use Chat Completions or Messages."
        served = ", ".join(
            f"{method} {served}"
            for served, methods in self._routes.items()
            for method in methods
            if served.startswith(VERSION + "/") and method != "HEAD"
        )
        return GatewayError("not_found", f"There is nothing at {shown}.{hint} Served are: {served}.")


def _parent(path: str) -> str:
    """`/v1/models/a/b` → `/v1/models/*`: model names hold slashes, so everything below belongs to one route."""
    pieces = path.split("/", 3)
    return "/".join((*pieces[:3], "*"))
