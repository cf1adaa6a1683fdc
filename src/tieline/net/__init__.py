"""Generic I/O: an HTTP client and server, HTTP/2 streams, child processes and private files.

Nothing here imports the neutral model or knows a protocol above HTTP.
"""
