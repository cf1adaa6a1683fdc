"""Subprocesses as byte streams, ended together with everything they started."""
