"""The path of a request: route it, start or resume a run, and pass its events on.

Modules that change a request's history belong in `core.history`, those that change a model's calls in `core.repair`.
"""
