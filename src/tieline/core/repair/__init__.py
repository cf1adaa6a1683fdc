"""Repairs of malformed tool calls on the way from the model to the client.

Corrections of what clients send belong in `core.history`.
"""
