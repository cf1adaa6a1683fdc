"""Convert a client's thinking setting (an effort or a token budget) to a reasoning effort for OpenAI's protocols."""

from tieline.model.request import Effort, Reasoning


def effort_of(reasoning: Reasoning, is_own: bool) -> Effort | None:
    """Return the reasoning effort to send to the upstream, or None to send none.

    `is_own` says whether the client uses the upstream's protocol.
    """
    if reasoning.mode == "off" or (reasoning.effort is None and reasoning.budget is None):
        return None
    if reasoning.effort is not None:
        # Few upstreams know efforts above "high". Only a client of the same protocol can know that its upstream does.
        return "high" if not is_own and reasoning.effort in ("xhigh", "max") else reasoning.effort
    budget = reasoning.budget or 0
    return "low" if budget <= 2048 else "medium" if budget <= 8192 else "high"
