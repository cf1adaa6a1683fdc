"""The checks of `tieline doctor`: machine, files, configuration, database, backends, accounts, agents and clients.

Modules here return their findings as values; `cli/doctor.py` prints them. No check changes anything.
"""
