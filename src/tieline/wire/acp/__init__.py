"""The codec of the Agent Client Protocol, without I/O: both sides of a connection.

`schema.py`, `updates.py` and `extensions.py` define the protocol's JSON objects as structs ("shapes"). `client_side.py`
is the client of an agent, `agent_side.py` the agent. The client side converts messages to the facts of `facts.py`.
Processes, sessions that span several requests, and decisions about permissions belong in `backends/acp`.
"""
