"""Coding agents that speak the Agent Client Protocol, each a program of this machine, as models."""
