"""Fixtures of the tests in the editor's workbench."""

from tests.editor.stand import chatting, folder, gateway, shared, stand, window
from tests.web.browser import browser

__all__ = ["browser", "chatting", "folder", "gateway", "shared", "stand", "window"]
