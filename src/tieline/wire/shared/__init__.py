"""Helpers that several codecs use: for JSON, tool schemas, spelling of names, capabilities of tools, questions.

Nothing here is specific to one protocol.
"""
