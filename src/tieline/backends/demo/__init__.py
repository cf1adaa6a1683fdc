"""The built-in demo model: a backend without network that calls the client's tools and follows exact scripts."""

from tieline.backends.demo.backend import DemoBackend

__all__ = ["DemoBackend"]
