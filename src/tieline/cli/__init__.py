"""The command `tieline`: parses arguments, runs commands and prints their output.

Only this package writes to the terminal. Code that other packages could need belongs in `app`.
"""
