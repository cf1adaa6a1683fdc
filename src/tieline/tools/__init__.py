"""The gateway's own tools: files, search, commands, todos, plans and questions, and the rules that guard them.

This package defines the tools that a model may call, what they do in the workspace, and which calls need a person's
permission. Protocols, HTTP, the inbox and the web page belong in `core`, `frontends` and `web`; reading the
configuration belongs in `app`.
"""
