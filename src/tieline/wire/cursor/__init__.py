"""Cursor's Agent API: messages, and the client's side of a run."""
