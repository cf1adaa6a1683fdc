"""Tieline is a local gateway that lets any LLM client talk to any LLM upstream."""

__version__ = "0.1.0"
