"""HTTP endpoints for clients: the request guard, routes, and one frontend per API that clients speak.

A frontend parses a request with a codec of `wire`, passes it to `core` and writes the events of the leg as a response.
Other packages handle requests (`core`), access upstreams (`backends`), and contain the HTTP server (`net.server`) and
the web page (`web`).
"""
