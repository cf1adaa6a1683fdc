"""I/O without meaning: connections, servers, processes and private files.

Nothing here knows the neutral model or a protocol above HTTP.
"""
