"""What is known about client programs: how to install, start and configure each of them.

The functions of this package compute settings. They do not read or write files, start programs or look at the
environment.
"""
