"""The first message of a run: the run request with history, context, tools and model.

This package converts a neutral request to Cursor's messages. The package `run` handles a run after it has been opened.
"""
