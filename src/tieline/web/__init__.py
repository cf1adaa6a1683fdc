"""The web page: its static files, its JSON API at `/api`, and the event stream that keeps it up to date.

Belongs here: what the page shows and how it is rendered. Does not belong here: the conversations themselves and the
inbox (`core`), HTTP parsing and access checks (`frontends`), and tools (`tools`).
"""
