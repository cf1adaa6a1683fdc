"""The composition root: settings, everything built from them, and the running server.

Only this package and `cli` read the configuration, the environment and the user's files. Protocols, tools and request
handling do not belong here.
"""
