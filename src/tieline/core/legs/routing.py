"""Maps a model name to a backend and to the upstream's name for the model.

A full name is `<backend>/<model>`; a colon can be used instead of the slash. Any other name is first looked up among
the aliases, which are exact names or patterns with `*`. A `*` in the target of an alias stands for the requested name.
Next, the name is looked up among the models that backends list. Finally, the default applies. A default with a `*` also
accepts names with a slash whose first part is not a backend, because many servers have such model names. A default
without a `*` does not accept them: a misspelled full name must not select another model.

A name that is neither an alias nor a listed model may be a variant of such a name (see `variants`).
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from tieline.core.legs.access import MAX_SHOWN_NAME, ModelAccess
from tieline.core.legs.variants import Variant, variants_of
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.ports import Backend

MAX_CACHED_ROUTES = 256
MAX_CACHED_NAME = 100
"""Maximum length of a name whose route is cached. Without a limit, long names could fill the memory."""


class ModelRoute(NamedTuple):
    """The backend for a request, and the upstream's name for the model."""

    backend: Backend
    model: str
    variant: Variant | None = None
    """The meaning of the suffixes of the requested name, if it is a variant of another name."""


class Router:
    """Finds the backend and the upstream model for a model name."""

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
        self.routes: BoundedCache[str, ModelRoute] = BoundedCache(MAX_CACHED_ROUTES)
        """A cache of the routes found so far, by name."""

    def add_models(self, full_names: Iterable[str], unlisted: Iterable[str] = ()) -> None:
        """Add the full names of listed models. `unlisted` names the backends whose models could not be listed."""
        self.routes.clear()
        self._unlisted = tuple(unlisted)
        for full in full_names:
            if full.partition("/")[0] not in self.backends:
                continue  # the backend was removed while its models were listed
            self._listed.setdefault(full.partition("/")[2], full)
            self._listed[full] = full

    def update(self, *, aliases: Mapping[str, str], default: str | None) -> None:
        """Replace aliases and default after `backends` has changed, and forget the models of removed backends."""
        self._aliases = dict(aliases)
        self._default = default
        self._listed = {name: full for name, full in self._listed.items() if full.partition("/")[0] in self.backends}
        self.routes.clear()

    def clear_cache(self) -> None:
        """Drop the cached routes. Call this when the backends change."""
        self.routes.clear()

    @property
    def aliases(self) -> list[str]:
        """The aliases that are exact names rather than patterns."""
        return [alias for alias in self._aliases if "*" not in alias]

    def alias_examples(self) -> list[str]:
        """Return an example of a name for each alias pattern that has a single `*` and a fixed target."""
        fixed = {alias: target.partition("/")[2] for alias, target in self._aliases.items() if "*" not in target}
        return [
            model if fnmatchcase(model, alias) else alias.replace("*", model)
            for alias, model in fixed.items()
            if alias.count("*") == 1
        ]

    def default_name(self) -> str:
        """Return the model for requests that name none. Raise GatewayError if there is no fixed default."""
        if self._default is None or "*" in self._default:
            default = "is not set" if self._default is None else f"is `{self._default}`, which needs a name"
            message = f"`model` is missing: expected the name of a model (`default_model` {default})"
            raise BadRequest(message, "model")
        return self._default

    def find(self, name: str, access: ModelAccess | None = None) -> ModelRoute:
        """Return the route for a name. If there is none, raise a GatewayError that lists the most similar names.

        If `access` is given and does not allow the model, raise the error for a refused model. Raise the same error for
        an unknown name that no pattern allows, so that clients cannot find out which models exist.
        """
        route = self._look_up(name)
        if route is None:
            if access is not None and not access.matches(name):
                raise access.refusal(name)
            raise GatewayError("not_found", self._unknown(name, access), param="model", code="model_not_found")
        if access is not None and not self._may_use(name, route, access):
            raise access.refusal(name)
        return route

    def _may_use(self, name: str, route: ModelRoute, access: ModelAccess) -> bool:
        """Return whether a client may use the route of a name.

        The default model answers any unknown name. So a name counts only if it names a model; otherwise the full name
        of the default model must be allowed.
        """
        asked = name if route.variant is None else route.variant.name
        full_name = f"{route.backend.name}/{route.model}"
        is_named = self._by_full_name(asked) is not None or bool(self._target(asked))
        return access.allows(asked if is_named else full_name, route.backend.name, route.model)

    def knows(self, name: str) -> bool:
        """Return whether there is a route for a name."""
        return self._look_up(name) is not None

    def _look_up(self, name: str) -> ModelRoute | None:
        route = self.routes.get(name)
        if route is None:
            route = self._by_variant(name) or self._by_full_name(name) or self._by_full_name(self._expand(name))
            if route is not None and len(name) <= MAX_CACHED_NAME:
                self.routes.put(name, route)
        return route

    def _by_variant(self, name: str) -> ModelRoute | None:
        """Return the route for a variant of a known name. Return None for any other name, even a known one.

        Return None for a full name if its backend parses options in names, because the suffixes may be options.
        """
        full = self._by_full_name(name)
        if self._is_known(name) or (full is not None and full.backend.reads_options):
            return None
        for variant in variants_of(name):
            if self._is_known(variant.name):
                route = self._by_full_name(variant.name) or self._by_full_name(self._expand(variant.name))
                return None if route is None else route._replace(variant=variant)
        return None

    def _is_known(self, name: str) -> bool:
        return name in self._aliases or name in self._listed

    def _by_full_name(self, name: str) -> ModelRoute | None:
        for separator in "/:":
            prefix, _, model = name.partition(separator)
            backend = self.backends.get(prefix)
            if backend is not None and model:
                return ModelRoute(backend, model)
        return None

    def _expand(self, name: str) -> str:
        """Return the full name for any other name: that of an alias or listed model, or else the default.

        Return an empty string if there is no match and the default does not apply.
        """
        target = self._target(name)
        if not target and self._default is not None and name and ("/" not in name or "*" in self._default):
            return self._default.replace("*", name)
        return target

    def _target(self, name: str) -> str:
        """Return the full name of an alias or a listed model. Return an empty string for any other name."""
        if name in self._aliases:
            return self._aliases[name].replace("*", name)
        for pattern, target in self._aliases.items():
            if fnmatchcase(name, pattern):
                return target.replace("*", name)
        return self._listed.get(name, "")

    def _unknown(self, name: str, access: ModelAccess | None) -> str:
        name = name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…"
        known = [*dict.fromkeys(self._listed.values()), *self.aliases]
        if access is not None:
            known = [one for one in known if self._is_allowed(one, access)]
        close = get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:3]
        if access is not None:
            hint = f"The closest names are: {', '.join(close)}." if close else f"This key may use {access}."
            return f"There is no model `{name}` here. {hint}"
        names = ", ".join(close) or ", ".join(f"{backend}/<model>" for backend in self.backends)
        gap = f" (the models of {', '.join(self._unlisted)} could not be listed)" if self._unlisted else ""
        return f"There is no model `{name}` here. The closest names are: {names}{gap}. `tieline models` lists all."

    def _is_allowed(self, name: str, access: ModelAccess) -> bool:
        route = self._look_up(name)
        return route is not None and self._may_use(name, route, access)
