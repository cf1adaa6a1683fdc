"""How a request opens a run: the run request with history, context, tools and model."""
