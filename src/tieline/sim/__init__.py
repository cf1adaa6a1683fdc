"""Simulators of upstreams, for tests, demonstrations and bug reports without an account or a network.

Each simulator is the server of one protocol and uses the codec of that protocol in `wire`. The gateway itself does not
depend on the simulators.
"""
