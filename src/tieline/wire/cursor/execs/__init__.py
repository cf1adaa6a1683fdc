"""Execs: the tool calls that Cursor's service sends on the stream of a run.

This package turns an exec into a call to one of the client's tools, and the tool's result into the typed result that
the service expects. The package `run` decides when calls are made and answered.
"""
