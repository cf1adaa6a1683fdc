"""Fixtures of the tests in Chromium."""

from tests.web.browser import browser, scripted, server, settings, window, windows

__all__ = ["browser", "scripted", "server", "settings", "window", "windows"]
