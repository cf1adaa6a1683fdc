"""The Agent Client Protocol, version 1: how coding agents and their clients talk, in both roles."""
