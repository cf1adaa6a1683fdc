"""The HTTP/1.1 server: a protocol class for uvicorn, the handling of one request and its response, and WebSockets.

The gateway's routes, its keys and the protocols above HTTP belong in `frontends`. uvicorn manages the listening sockets
and the signals, and starts and stops the server.
"""
