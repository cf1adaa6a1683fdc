"""Child processes as byte streams. They are ended together with all processes that they started.

This package does not know which protocol a program uses over its pipes. `warden.py` is a separate program and is never
imported.
"""
