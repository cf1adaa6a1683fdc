"""Stateless HTTP APIs: every leg posts the whole history."""
