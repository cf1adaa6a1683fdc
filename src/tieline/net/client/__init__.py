"""The HTTP/1.1 client for upstreams, with a connection pool per origin and support for proxies.

This package does not know which API an upstream offers: `wire` and `backends` build requests and interpret responses.
HTTP/2 is in `net.h2`.
"""
