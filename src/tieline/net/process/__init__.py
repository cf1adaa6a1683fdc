"""Child processes as byte streams. They are ended together with all processes that they started.

Nothing here knows what protocol a program uses over its pipes. `warden.py` is a separate program and is never imported.
"""
