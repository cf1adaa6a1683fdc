"""Cursor as a backend: live runs over two transports, the account, the models."""
