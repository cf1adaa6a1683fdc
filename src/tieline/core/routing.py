"""Model name → backend and upstream model.

A full name is `<backend>/<model>`; a colon does as well as the slash. For clients that only know bare names there are
aliases, exact or as patterns with `*` (a `*` in the target stands for the whole name that was asked for), the models
that backends are known to have, and last a default.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from tieline.model.errors import GatewayError
from tieline.model.ports import Backend

MOST_REMEMBERED = 256
"""So many names are not looked up again."""
LONGEST_SHOWN = 100
"""More of an unknown name is neither repeated nor compared: it may be as long as a request."""


class Route(NamedTuple):
    """Where a request goes."""

    backend: Backend
    model: str


class Router:
    """The backends by name, and the names clients may use for their models."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        *,
        aliases: Mapping[str, str] | None = None,
        default: str | None = None,
    ) -> None:
        self.backends = backends
        self._aliases = dict(aliases or {})
        self._default = default
        self._listed: dict[str, str] = {}
        self._found: dict[str, Route] = {}

    def know(self, full_names: Iterable[str]) -> None:
        """Remember which models there are, for bare names and for suggestions."""
        self._found.clear()
        for full in full_names:
            self._listed.setdefault(full.partition("/")[2], full)
            self._listed[full] = full

    def forget(self) -> None:
        """There are other backends than before."""
        self._found.clear()

    def find(self, name: str) -> Route:
        """The route for a name; raises GatewayError with the closest names if there is none."""
        route = self._found.get(name)
        if route is None:
            route = self._sought(name)
            if len(self._found) < MOST_REMEMBERED and len(name) <= LONGEST_SHOWN:
                self._found[name] = route
        return route

    def _sought(self, name: str) -> Route:
        route = self._full(name) or self._full(self._expand(name))
        if route is None:
            raise GatewayError("not_found", self._unknown(name), param="model", code="model_not_found")
        return route

    def _full(self, name: str) -> Route | None:
        for mark in "/:":
            prefix, _, model = name.partition(mark)
            backend = self.backends.get(prefix)
            if backend is not None and model:
                return Route(backend, model)
        return None

    def _expand(self, name: str) -> str:
        if name in self._aliases:
            return self._aliases[name].replace("*", name)
        for pattern, target in self._aliases.items():
            if fnmatchcase(name, pattern):
                return target.replace("*", name)
        if name in self._listed:
            return self._listed[name]
        if self._default is not None and "/" not in name:
            return self._default.replace("*", name)
        return ""

    def _unknown(self, name: str) -> str:
        name = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
        known = [*dict.fromkeys(self._listed.values()), *(alias for alias in self._aliases if "*" not in alias)]
        close = get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:3]
        names = ", ".join(close) or ", ".join(f"{backend}/<model>" for backend in self.backends)
        return f"There is no model `{name}` here. The closest names are: {names}. `tieline models` lists all."
