"""Builds all objects of the program from the configuration. Start reading at `application.build`.

Each module builds one part. Only wiring, and code that needs the configuration or the environment, belongs here.
Behaviour belongs in the other packages.
"""
