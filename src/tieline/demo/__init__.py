"""The built-in demo model's mind: decides from a request what to say and which tools to call; no network, no clock."""

from tieline.model.ports import ModelInfo

MODELS = (ModelInfo(id="scripted", title="Scripted demo"),)
