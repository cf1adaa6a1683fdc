"""The built-in demo model: deterministic rules that map a request to text and tool calls.

The demo model does no I/O and reads no clock. `backends/demo.py` makes it available as a backend, and the simulated
upstreams use it as their model.
"""

from tieline.model.ports import ModelInfo

MODELS = (ModelInfo(id="scripted", title="Scripted demo", tools=True),)
