"""Questions for a person who can only be reached through the client.

`text` renders a question as text and parses the answer; `client_tool` asks the question with a call to one of the
client's tools.
"""
