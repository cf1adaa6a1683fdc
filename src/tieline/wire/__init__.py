"""How each protocol spells the model: codecs without I/O or clocks, both roles of a protocol in one place."""
