"""The client's side of a live run, as a state machine.

`states` defines the states and transitions; `machine` combines the other modules into the state machine. The package
`opening` builds the first message of a run, and the package `execs` maps a single exec to a tool.
"""
