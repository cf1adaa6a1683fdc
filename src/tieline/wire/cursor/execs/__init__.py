"""Execs, the calls that Cursor's service makes on its stream: how each maps to a client's tool and back."""
