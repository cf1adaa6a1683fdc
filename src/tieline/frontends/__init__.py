"""HTTP endpoints for clients: the request guard, routes, and one frontend per API that clients speak.

A frontend parses a request with a codec of `wire`, passes it to `core` and writes the events of the leg as a response.
What a model or an upstream does belongs to `core` and `backends`; the HTTP server itself is `net.server`; the web page
is `web`.
"""
