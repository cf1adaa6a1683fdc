"""Protocol-independent types: content, requests, events, errors, inbox items, and the interfaces between the layers.

This package contains no protocol-specific field names, performs no I/O, and uses no clock and no randomness.
"""
