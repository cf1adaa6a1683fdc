"""Repairs of malformed tool calls."""
