"""Processing of histories: pair tool calls with their results, restore thinking, estimate tokens."""
