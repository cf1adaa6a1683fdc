"""Ports for servers that tests start."""

import secrets
import socket


def free_port() -> int:
    """Return a free port. It is none of those that the system gives out, so it stays free until it is used."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
