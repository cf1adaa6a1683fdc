"""Coding agents that speak the Agent Client Protocol, as models.

This package starts agent processes, keeps their sessions, maps requests to sessions and turns, and connects what agents
ask for with the inbox, the client's tools and the host. Start reading with `turn_state.py` and `turn_opener.py`. The
protocol itself belongs in `wire/acp`; rules and file access for agents are implemented in `app` and passed in.
"""
