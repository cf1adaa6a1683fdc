"""Observability: records of legs, metrics, the event bus, and removal of secrets."""
