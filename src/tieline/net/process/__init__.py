"""Child processes as byte streams, which are ended together with everything they started.

Nothing here knows what a program speaks over its pipes. `warden.py` is a program of its own and is never imported.
"""
