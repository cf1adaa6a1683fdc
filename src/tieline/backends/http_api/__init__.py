"""Backends for HTTP APIs: every leg is one POST, with the whole history or what is new since a checkpoint."""
