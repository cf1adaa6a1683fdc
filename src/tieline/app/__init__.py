"""The composition root: reads the settings, builds the program from them, and runs the server.

Only this package and `cli` read the configuration, the environment and the user's files. Protocols, tools and request
handling do not belong here.
"""
