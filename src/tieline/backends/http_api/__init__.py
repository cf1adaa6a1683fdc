"""Backends for HTTP APIs: every leg is one POST, with the whole history or only the messages after a checkpoint."""
