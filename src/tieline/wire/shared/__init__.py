"""What several codecs use: JSON, schemas, spelling, capabilities of tools, questions.

Nothing here knows one protocol in particular.
"""
