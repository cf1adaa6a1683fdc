"""Helpers that several codecs use, for example for JSON, tool schemas, the spelling of names, and questions.

Nothing here is specific to one protocol.
"""
