"""Pipes: they carry bytes to upstreams and back and know nothing of what the bytes mean."""
