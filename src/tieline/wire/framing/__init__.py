"""Split a byte stream into messages: server-sent events, Connect envelopes or JSON-RPC lines.

The packages of the protocols interpret the messages.
"""
