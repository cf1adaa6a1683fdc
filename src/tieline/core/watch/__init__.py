"""Observability: records of legs, metrics, the event bus, and the removal of secrets from messages and logs."""
