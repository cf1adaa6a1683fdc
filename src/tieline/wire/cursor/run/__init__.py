"""The client's side of a live run, as a state machine.

`states` has the states and transitions, `machine` puts everything together. Here belongs what happens while a run is
live. How a run is opened is in `opening`, how a single exec is mapped to a tool in `execs`.
"""
