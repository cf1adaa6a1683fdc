"""Builds the objects of the program from the configuration; start reading at `application.build`.

Each module builds one part. Behaviour belongs in the other packages; only wiring, and code that needs the configuration
or the environment, belongs here.
"""
