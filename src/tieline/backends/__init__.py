"""Backends: each reaches one kind of upstream and starts runs on it."""
