"""The client's side of a live run, as a state machine."""
