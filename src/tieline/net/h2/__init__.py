"""Two-way HTTP/2 streams to upstreams, on top of the h2 library.

This package supports only the client role, and only POST requests, whose body may continue while the response arrives.
Ordinary requests use `net.client`.
"""
