"""Legs, routing and what is remembered between them; no protocol, no socket, no disk."""
