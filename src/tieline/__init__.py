"""Tieline is a local gateway through which any LLM client can use any LLM upstream."""

__version__ = "0.1.0"
