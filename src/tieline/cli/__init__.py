"""The command `tieline`: arguments, commands and what they print."""
