"""Repairs to malformed tool calls on their way from the model to the client.

Corrections to requests from clients belong in `core.history`.
"""
