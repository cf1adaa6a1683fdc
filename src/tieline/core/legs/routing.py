"""Model name → backend and upstream model.

A full name is `<backend>/<model>`; a colon does as well as the slash. For clients that only know bare names there are
aliases, exact or as patterns with `*` (a `*` in the target stands for the whole name that was asked for), the models
that backends are known to have, and last a default. A default with a `*` also takes names with a slash whose first part
is not a backend, as many servers have them. A fixed default does not: a misspelled name must not become another model.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from tieline.model.errors import BadRequest, GatewayError
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
        self._unlisted: tuple[str, ...] = ()
        self._found: dict[str, Route] = {}

    def know(self, full_names: Iterable[str], unlisted: Iterable[str] = ()) -> None:
        """Remember which models there are, and the backends that could not list theirs."""
        self._found.clear()
        self._unlisted = tuple(unlisted)
        for full in full_names:
            self._listed.setdefault(full.partition("/")[2], full)
            self._listed[full] = full

    def forget(self) -> None:
        """There are other backends than before."""
        self._found.clear()

    @property
    def aliases(self) -> list[str]:
        """The aliases that are exact names."""
        return [alias for alias in self._aliases if "*" not in alias]

    def samples(self) -> list[str]:
        """A name for each pattern that leads to one model: the name of that model, made to fit the pattern."""
        fixed = {alias: target.partition("/")[2] for alias, target in self._aliases.items() if "*" not in target}
        return [
            model if fnmatchcase(model, alias) else alias.replace("*", model)
            for alias, model in fixed.items()
            if alias.count("*") == 1
        ]

    def default_name(self) -> str:
        """Return the full name of the default model; nothing if there is none or it needs a name."""
        return "" if self._default is None or "*" in self._default else self._default

    def unnamed(self) -> str:
        """The full name for a request that names no model; raises GatewayError if no default tells."""
        if self._default is None or "*" in self._default:
            default = "is not set" if self._default is None else f"is `{self._default}`, which needs a name"
            message = f"`model` is missing: expected the name of a model (`default_model` {default})"
            raise BadRequest(message, "model")
        return self._default

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
        if self._default is not None and name and ("/" not in name or "*" in self._default):
            return self._default.replace("*", name)
        return ""

    def _unknown(self, name: str) -> str:
        name = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"
        known = [*dict.fromkeys(self._listed.values()), *self.aliases]
        close = get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:3]
        names = ", ".join(close) or ", ".join(f"{backend}/<model>" for backend in self.backends)
        gap = f" (those of {', '.join(self._unlisted)} could not be listed)" if self._unlisted else ""
        return f"There is no model `{name}` here. The closest names are: {names}{gap}. `tieline models` lists all."
