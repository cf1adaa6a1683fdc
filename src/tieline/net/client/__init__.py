"""The HTTP/1.1 client for upstreams: a connection pool per origin, proxies and response bodies.

Nothing here knows which API an upstream offers; requests are built and responses interpreted in `wire` and `backends`.
HTTP/2 is in `net.h2`.
"""
