"""The web page's conversations: sessions, their message trees and the message being generated.

The package `web` contains the HTTP endpoints and the rendering.
"""
