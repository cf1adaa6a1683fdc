"""Questions for a person whom only the client can reach: in plain words, or by a tool of its own for asking."""
