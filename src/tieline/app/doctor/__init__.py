"""The checks of `tieline doctor`: machine, configuration, state, backends, agents and clients.

Modules here find out facts and return them as values; `cli/doctor.py` prints them. No check changes anything.
"""
