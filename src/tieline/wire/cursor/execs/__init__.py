"""Execs, the calls that Cursor's service makes on its stream.

Here belongs what maps an exec to a call of a client's tool, and the tool's result back to the typed result that the
service expects. When calls are made and answered is decided in `run`.
"""
