"""The command `tieline inbox`: lists the requests that wait for the user, and sends the answers to the gateway.

It talks to a running gateway over HTTP, like any client. The inbox itself is in `core/inbox`.
"""
