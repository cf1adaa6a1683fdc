"""The command `tieline chat`: a conversation in the terminal, through the API of a running gateway.

Sessions belong to the gateway, so the web page shows the same conversations. `rich` is imported only here.
"""
