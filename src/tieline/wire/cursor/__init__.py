"""The codec for Cursor's Agent API, without I/O: the client's side of a run.

`opening` builds the first message of a run, `run` is the state machine of a live run, and `execs` maps the service's
tool calls to the client's tools. The modules directly in this package handle headers, model lists, blobs and errors.
Connections, accounts and retries belong to `backends.cursor`. `_pb` is generated from `proto/cursor`.
"""
