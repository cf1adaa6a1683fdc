"""OpenAI's Responses API: responses over HTTP and WebSocket, stored responses, conversations, compaction.

`creation` prepares a request, whichever way it arrives; `endpoint` answers over HTTP, `socket` over a WebSocket,
`background` without a connection. `history` and `conversations` have what is stored; `compacting` answers on a summary.
"""
