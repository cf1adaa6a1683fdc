"""The gateway itself: legs, routing, parking, history, repairs, the inbox, sessions and records.

Code here is independent of protocols and transports. Codecs belong in `wire`, sockets in `net`, files on disk in `app`.
"""
