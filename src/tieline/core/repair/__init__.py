"""Repairs of malformed tool calls on the way from the model to the client.

Corrections of requests from clients belong in `core.history`.
"""
