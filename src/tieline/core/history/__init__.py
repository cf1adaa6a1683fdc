"""Histories made acceptable to every upstream: paired tool results, restored thinking, token estimates."""
