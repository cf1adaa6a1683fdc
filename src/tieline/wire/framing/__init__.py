"""Split a byte stream into messages: server-sent events, Connect envelopes or JSON-RPC lines.

The protocol packages interpret the messages. `stream_reader` contains the base class of their readers for HTTP streams.
"""
