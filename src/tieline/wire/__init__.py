"""Protocol codecs without I/O, clocks or randomness; each implements both roles of its protocol.

A protocol's package must not import another protocol's; what several need belongs in `shared`.
"""
