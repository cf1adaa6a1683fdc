"""Documents that clients asked the gateway to keep, such as responses. Each is private to its owner, and expires.

The archive does not interpret the content of documents; only the frontend that stores them does.
"""
