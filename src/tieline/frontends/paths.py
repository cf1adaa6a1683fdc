"""Looks up routes by path, tolerating base URLs with one `/v1` too many or too few."""

import logging
from collections.abc import Mapping
from typing import Generic, TypeVar

from tieline.model.errors import GatewayError

log = logging.getLogger("tieline")

VERSION = "/v1"
MAX_LOGGED_PATHS = 100
MAX_LOGGED_LENGTH = 200

R = TypeVar("R")


class PathTable(Generic[R]):
    """Path → method → route. A path that ends with `/*` matches everything below it."""

    def __init__(self, routes: Mapping[str, Mapping[str, R]]) -> None:
        self._routes = routes
        self._logged: set[str] = set()

    def methods(self, path: str) -> Mapping[str, R] | None:
        """Return the methods of a path, or None if nothing is served there."""
        exact = self._routes.get(path)
        if exact is not None:
            return exact
        path = path.rstrip("/").replace("//", "/")
        while path.startswith(VERSION * 2 + "/"):
            path = path[len(VERSION) :]
        for candidate in (path, VERSION + path):
            found = self._routes.get(candidate) or self._routes.get(_parent(candidate))
            if found is not None:
                return found
        return None

    def missing(self, method: str, path: str) -> GatewayError:
        """Return the error for a path at which nothing is served; log each such path once."""
        shown = ascii(path[:MAX_LOGGED_LENGTH])[1:-1]
        if shown not in self._logged and len(self._logged) < MAX_LOGGED_PATHS:
            self._logged.add(shown)
            log.warning("%s %s: nothing is served there; is the client's base URL right?", method, shown)
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
    """Return `/v1/models/*` for `/v1/models/a/b`: model names contain slashes, so one route takes everything below."""
    pieces = path.split("/", 3)
    return "/".join((*pieces[:3], "*"))
