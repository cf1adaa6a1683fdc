"""The Cursor backend: live runs over two transports, retries, conversations, the account and its login.

Here belongs everything that does I/O or depends on time. The protocol itself is in `wire.cursor`.
"""
