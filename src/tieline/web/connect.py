"""The content of the Connect page: the state of backends, and client settings with the gateway's URL and a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from tieline.clients.client import ANY_KEY, Connection
from tieline.clients.snippets import snippets
from tieline.model.ports import ModelFacts
from tieline.web.gateway_info import GatewayInfo, LoginState

OWN_KEY = "<your gateway key>"
DEMO = "demo/scripted"
AGENTS = "acp/"
"""Prefix of the names of coding agents. They have tools of their own, so most clients are of little use with them."""
NO_MODEL = "<backend>/<model>"


def connect_page(
    info: GatewayInfo, address: str, models: Mapping[str, ModelFacts], *, model: str = "", needs_key: bool
) -> dict[str, Any]:
    """Return the content of the Connect page as JSON values. `address` is the URL of the gateway.

    The settings are for `model` or, if it is empty, for the model that `choose_model` returns.
    """
    login = LoginState(state="off", is_offered=False) if info.login is None else info.login.state()
    chosen = model or choose_model(info.default_model, list(models))
    key = OWN_KEY if needs_key else ANY_KEY
    facts = models.get(chosen, ModelFacts())
    return {
        "address": address,
        "key_needed": needs_key,
        "backends": info.backends(),
        "agents": info.agents(),
        "model": chosen,
        "snippets": snippets(Connection(url=address, model=chosen, key=key, facts=facts)),
        "cursor": login,
    }


def choose_model(default: str | None, models: Sequence[str]) -> str:
    """Return the model to use in client settings.

    This is the default model, unless it is a pattern; otherwise the first model that is neither the demo model nor an
    agent; otherwise the demo model. If there is none of these, return the placeholder NO_MODEL.
    """
    if default is not None and "*" not in default:
        return default
    real = next((model for model in models if model != DEMO and not model.startswith(AGENTS)), None)
    return real or (DEMO if DEMO in models else NO_MODEL)
