"""The web page's conversations: sessions, their message trees and the message being generated.

HTTP endpoints and rendering belong in `web`.
"""
