"""The web page: its static files, its JSON API at `/api`, and the event stream that keeps it up to date.

Content and rendering of the page belong here. The conversations and the inbox (`core`), HTTP parsing and access checks
(`frontends`), and tools (`tools`) do not.
"""
