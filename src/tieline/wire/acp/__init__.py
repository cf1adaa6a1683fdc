"""The Agent Client Protocol: shapes, both sides of a connection, and facts. No I/O.

`schema.py`, `updates.py` and `extensions.py` hold the JSON shapes, `client_side.py` the client of an agent and
`agent_side.py` the agent. The client side turns messages into the facts of `facts.py`. Processes, sessions over several
requests and decisions about permissions belong in `backends/acp`.
"""
