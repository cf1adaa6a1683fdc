"""Turns a configuration into objects, one module for each part of the gateway."""
