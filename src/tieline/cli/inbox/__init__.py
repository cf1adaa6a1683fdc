"""The command `tieline inbox`: what waits for a person, shown in a terminal and answered there."""
