"""The HTTP/1.1 server: the protocol class for uvicorn, one request cycle, the client's connection."""
