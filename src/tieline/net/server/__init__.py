"""The HTTP/1.1 server: a protocol class for uvicorn, the handling of one request and its response, and WebSockets.

Nothing here knows the gateway's routes, keys or protocols above HTTP; those belong to `frontends`. uvicorn manages the
listening sockets, the signals, and the start and stop of the server.
"""
