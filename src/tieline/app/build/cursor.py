"""Checks whether the Cursor backend is available, and builds it. The backend's code is imported on first use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tieline.app.build.keys import cursor_key
from tieline.app.build.status import BackendStatus
from tieline.app.config import CursorSettings
from tieline.app.folders import user_folder
from tieline.app.ids import Ids
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyBackend, LazyObject
from tieline.backends.cursor.login_store import LoginStore
from tieline.model.ports import Backend, ModelInfo
from tieline.net.client.http import Proxies

if TYPE_CHECKING:
    from tieline.app.build.cursor_account import make_cursor_backend
else:
    make_cursor_backend = LazyImport("tieline.app.build.cursor_account", "make_cursor_backend")

CURSOR_MODES = ("agent", "ask", "plan", "debug")
"""The modes of Cursor's models. They are repeated here so that the page can list them without loading the backend."""


def cursor_backend(
    settings: CursorSettings,
    env: Mapping[str, str],
    proxies: Proxies,
    ids: Ids,
    token: str | None = None,
    *,
    park_for: float = 900.0,
) -> tuple[LazyBackend, BackendStatus] | None:
    """Build the Cursor backend, and describe its status. If a `token` is given, no login or key is needed.

    Return None if the backend is disabled, or if `enabled` is not set and there is neither a login nor a key.
    """
    if settings.enabled is False:
        return None
    key = cursor_key(settings, env) if token is None else None
    status = _status(settings, env, has_token=token is not None, has_key=key is not None)
    if settings.enabled is None and not status.is_ready:
        return None
    models = [ModelInfo(id=model, tools=True) for model in settings.models]
    backend: LazyObject[Backend] = LazyObject(
        make_cursor_backend, settings, env, proxies, ids, park_for=park_for, token=token, key=key
    )
    listed = (lambda: models) if models else None
    return LazyBackend("cursor", backend, reads_options=True, obeys_limits=False, models=listed), status


def _status(settings: CursorSettings, env: Mapping[str, str], *, has_token: bool, has_key: bool) -> BackendStatus:
    if has_token:
        return BackendStatus("cursor", True, settings.api_url)
    if has_key:
        text = f"{settings.api_url} (key from {settings.key_file or settings.key_env})"
        return BackendStatus("cursor", True, text, label_if_ready="configured")
    is_ready = LoginStore(user_folder(env)).is_stored
    text = f"{settings.api_url} (your login)" if is_ready else "run: tieline login cursor"
    return BackendStatus("cursor", is_ready, text, missing="no login", label_if_ready="logged in")
