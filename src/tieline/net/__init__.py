"""Generic I/O: an HTTP client and server, HTTP/2 streams, child processes and private files.

This package does not import `tieline.model`, and knows no protocol above HTTP.
"""
