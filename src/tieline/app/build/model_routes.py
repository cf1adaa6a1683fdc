"""Builds the router for model names, and updates it when upstreams are added or removed while the gateway runs."""

from collections.abc import Mapping

from tieline.app.build.backends import Backends
from tieline.app.config import Config, UpstreamSettings
from tieline.core.legs.routing import Router
from tieline.model.ports import Backend

BARE_NAMES = {
    "anthropic": ("claude-*",),
    "openai": ("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "codex-*"),
}
"""For each upstream, patterns of the model names that clients may send without the upstream's name as a prefix."""


class ModelRoutes:
    """The router, with the aliases and the default model that follow from the configuration and the backends."""

    def __init__(self, config: Config, backends: Backends) -> None:
        self._config = config
        self._backends = backends
        self.aliases: dict[str, str] = {}
        """All aliases, configured and built-in. The same object is updated when the upstreams change."""
        self.router = Router(backends.by_name)
        if config.demo:
            self.router.add_models(["demo/scripted"])
        self.update()

    def update(self) -> None:
        """Adapt aliases, default model and known models to the current backends."""
        config, backends = self._config, self._backends
        self.aliases.clear()
        self.aliases.update(_aliases(config, backends.by_name))
        self.router.update(aliases=self.aliases, default=_default_model(config, backends.by_name))
        self.router.add_models(_configured_models(backends.upstreams))


def _configured_models(upstreams: Mapping[str, UpstreamSettings]) -> list[str]:
    return [f"{name}/{model}" for name, settings in upstreams.items() for model in settings.models]


def _aliases(config: Config, backends: Mapping[str, Backend]) -> dict[str, str]:
    known = {pattern: f"{name}/*" for name, patterns in BARE_NAMES.items() if name in backends for pattern in patterns}
    return {**config.aliases, **{alias: target for alias, target in known.items() if alias not in config.aliases}}


def _default_model(config: Config, backends: Mapping[str, Backend]) -> str | None:
    """Return the model for requests that name an unknown model, or None to reject them.

    This is the configured default model. Without one, it is the demo model if there is neither an upstream nor a
    Cursor account.
    """
    if config.default_model is not None:
        return config.default_model
    return "demo/scripted" if set(backends) <= {"demo", "acp"} and "demo" in backends else None
