"""Accounts as backends: whether there is a login or a key, and the backend that is made when it is first used."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tieline.app.build.upstreams import State, cursor_key, user_folder
from tieline.app.config import CursorSettings
from tieline.app.late_backend import LateBackend, Later
from tieline.app.lazy import Lazily
from tieline.backends.cursor.login_store import LoginStore
from tieline.model.ports import Backend, ModelInfo
from tieline.net.client.http import Proxies

if TYPE_CHECKING:
    from tieline.app.build.cursor import cursor_runs
else:
    cursor_runs = Lazily("tieline.app.build.cursor", "cursor_runs")

CURSOR_MODES = ("agent", "ask", "plan", "debug")
"""How a model of Cursor can work."""


def cursor_backend(
    settings: CursorSettings,
    env: Mapping[str, str],
    proxies: Proxies,
    mint_leg: Callable[[], str],
    token: str | None = None,
    *,
    park_for: float = 900.0,
) -> tuple[LateBackend, State] | None:
    """The Cursor backend, unless it is switched off, or left open and there is no login; a `token` is used as it is."""
    if settings.enabled is False:
        return None
    key = cursor_key(settings, env) if token is None else None
    state = _cursor_state(settings, env, is_given=token is not None, has_key=key is not None)
    if settings.enabled is None and not state.is_ready:
        return None
    models = [ModelInfo(id=model) for model in settings.models]
    runs: Later[Backend] = Later(cursor_runs, settings, env, proxies, mint_leg, park_for=park_for, token=token, key=key)
    listed = (lambda: models) if models else None
    return LateBackend("cursor", runs, reads_options=True, obeys_limits=False, models=listed), state


def _cursor_state(settings: CursorSettings, env: Mapping[str, str], *, is_given: bool, has_key: bool) -> State:
    if is_given:
        return State("cursor", True, settings.api_url)
    if has_key:
        text = f"{settings.api_url} (key from {settings.key_file or settings.key_env})"
        return State("cursor", True, text, standing_if_ready="configured")
    is_ready = LoginStore(user_folder(env)).path.exists()
    text = f"{settings.api_url} (your login)" if is_ready else "run: tieline login cursor"
    return State("cursor", is_ready, text, lack="no login", standing_if_ready="logged in")
