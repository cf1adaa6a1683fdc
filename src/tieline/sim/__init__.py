"""Simulators of upstreams, for tests, demonstrations and bug reports without an account or a network.

Each simulator is a server for one or more protocols and uses their codecs from `wire`. The gateway itself uses a
simulator only with `tieline serve --demo`.
"""
