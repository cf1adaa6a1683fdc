"""The first message of a run: the run request with history, context, tools and model.

Here belongs what converts a neutral request to Cursor's messages. What happens after a run was opened is in `run`.
"""
