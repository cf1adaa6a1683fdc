"""The gateway's own tools: files, search, commands, todos, plans and questions, and the rules that guard them.

Belongs here: what a tool does in the workspace, what a model may call, and what needs a person's permission. Does not
belong here: protocols, HTTP, the inbox and the page (`core`, `frontends`, `web`), and reading the configuration
(`app`).
"""
