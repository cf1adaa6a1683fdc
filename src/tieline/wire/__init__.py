"""Protocol codecs without I/O or clocks; each holds both roles of its protocol."""
