"""The codec for the Agent Client Protocol, for both sides of a connection, without I/O.

`schema.py`, `updates.py` and `extensions.py` define the protocol's JSON objects as structs ("shapes"). `client_side.py`
implements the client, `agent_side.py` the agent. The client side converts messages to the facts defined in
`facts.py`. Processes, sessions that span several requests, and decisions about permissions belong in `backends/acp`.
"""
