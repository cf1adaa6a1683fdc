"""Backends for stateless HTTP APIs: every leg posts the whole history."""
