"""Client programs: how to install, start and configure each of them.

The functions in this package compute settings. They do not read or write files, start programs or read the
environment.

To add a client, write a module with a `Client`, add it to `catalogue.py`, and describe it in docs/clients.md. Tests
check that the catalogue and the document agree, and that the key is never passed as an argument.
"""
