"""Split a byte stream into messages: server-sent events, Connect envelopes, JSON-RPC lines.

The messages are interpreted by the protocol packages.
"""
