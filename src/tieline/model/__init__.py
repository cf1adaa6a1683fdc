"""The neutral vocabulary: content, requests, events, errors, inbox items, and the ports between the layers.

No protocol's field names, no I/O, no clocks, no randomness.
"""
