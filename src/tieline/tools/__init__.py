"""The gateway's own tools, for files, search, commands, todos, plans and questions, and the rules that guard them.

This package defines the tools that a model may call, their effect in the workspace, and the rules that decide whether
a call needs a person's permission. Protocols, HTTP, the inbox and the web page belong in `core`, `frontends` and `web`;
reading the configuration belongs in `app`.
"""
