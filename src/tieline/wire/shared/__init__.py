"""Helpers shared by several codecs, for example for JSON, tool schemas, the spelling of names, and questions.

Code that only one codec uses belongs in that codec's package.
"""
