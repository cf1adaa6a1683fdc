"""The ACP backend: offers coding agents that speak the Agent Client Protocol (ACP) as models.

This package starts agent processes, keeps their sessions, assigns each client request to a session and a turn, and
forwards requests from agents to the inbox, the client's tools or the host. Start reading with `turn_state.py` and
`turn_opener.py`. The protocol itself belongs in `wire/acp`; rules and file access for agents are implemented in `app`
and passed in.
"""
