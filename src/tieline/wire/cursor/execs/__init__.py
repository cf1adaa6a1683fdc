"""Execs: the tool calls that Cursor's service sends on the stream of a run.

This package maps an exec to a call of one of the client's tools, and the tool's result back to the typed result that
the service expects. The package `run` decides when calls are made and answered.
"""
