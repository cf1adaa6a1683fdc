"""Split a byte stream into messages: server-sent events, Connect envelopes, JSON-RPC lines.

The meaning of the messages belongs in the packages of the protocols.
"""
