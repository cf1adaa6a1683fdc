"""The Cursor backend: live runs, their two transports, retries, conversations, the account and its login.

This package contains everything that does I/O or depends on time. The protocol itself is in `wire.cursor`.
"""
