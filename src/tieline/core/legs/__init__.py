"""The path of a request: route it, start or resume a run, and pass the run's events to the client.

Modules that change the history of a request belong in `core.history`; modules that change a model's calls belong in
`core.repair`.
"""
