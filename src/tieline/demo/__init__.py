"""The built-in demo model: a deterministic script that maps a request to text and tool calls.

It does no I/O and reads no clock. `backends/demo.py` serves it as a backend; the simulators use it as their model.
"""

from tieline.model.ports import ModelInfo

MODELS = (ModelInfo(id="scripted", title="Scripted demo"),)
