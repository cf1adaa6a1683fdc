"""Protocol codecs without I/O, clocks or randomness. Each codec implements both sides of its protocol.

The package of a protocol must not import that of another protocol. Code that several protocols need belongs in
`shared`.
"""
