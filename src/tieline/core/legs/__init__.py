"""The path of a request: prepare, route, start or resume a run, pass its events on."""
