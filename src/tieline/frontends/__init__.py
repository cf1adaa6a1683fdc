"""HTTP endpoints for clients: the request guard, routes, and one frontend per API that clients speak.

A frontend parses a request with a codec of `wire`, passes it to `core` and writes the events of the leg as a response.
The handling of requests belongs in `core`, access to upstreams in `backends`, the HTTP server in `net.server`, and the
web page in `web`.
"""
