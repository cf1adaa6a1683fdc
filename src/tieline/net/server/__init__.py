"""The HTTP/1.1 server side: a protocol class for uvicorn and what one request and its response need.

Nothing here knows the gateway's routes, keys or protocols above HTTP; those belong to `frontends`. Listening sockets,
signals and the start and stop of the server are uvicorn's.
"""
