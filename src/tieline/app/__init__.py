"""The composition root: settings, what is built from them, and the running server.

Only this package and `cli` read the configuration, the environment and the state files.
"""
