"""The command `tieline`: parses arguments, runs commands and prints their output.

Only this package writes to the terminal. Anything that another part of the program could need belongs in `app`.
"""
