"""The web page: its static files, its JSON API at `/api`, and the event stream that keeps it up to date.

The content of the page and its rendering belong here. Conversations and the inbox belong in `core`, HTTP parsing and
access checks in `frontends`, and tools in `tools`.
"""
