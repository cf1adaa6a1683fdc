"""Simulators of upstreams, for tests, demonstrations and bug reports without an account or a network.

They implement the server role of a protocol with its codec in `wire`. The gateway itself does not depend on them.
"""
