"""Usage and cost of requests, and the limits of keys.

A leg calls `meter`. `accounts` holds the usage of each key, `sums` adds up entries, `limits` and `prices` are values.
The package does no I/O: `app` stores the entries.
"""
