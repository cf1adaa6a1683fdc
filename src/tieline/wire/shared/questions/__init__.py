"""Questions for a person who can only be reached through the client.

`text` renders a question as text and parses the answer; `client_tool` asks it with a call to the client's own tool.
"""
