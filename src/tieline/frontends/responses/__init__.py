"""OpenAI's Responses API: responses over HTTP and WebSocket, stored responses, conversations, compaction.

`creation` prepares every request. `endpoint` answers over HTTP, `socket` over a WebSocket, and `background` without an
open connection. `history` holds the stored responses, `conversations` the stored conversations. `compacting` answers a
long conversation from a summary of it.
"""
