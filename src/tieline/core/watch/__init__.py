"""Observability: records of legs, metrics, events for watchers, secrets kept out of them."""
