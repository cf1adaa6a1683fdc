"""Simulators of upstreams: for tests, demonstrations and bug reports that need no account and no network."""
