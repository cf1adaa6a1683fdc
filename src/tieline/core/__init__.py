"""Legs, routing and what is remembered between them; knows no protocol, no socket and no disk."""
